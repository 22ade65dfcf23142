const root=document.documentElement,themes=["system","light","dark"],button=document.querySelector(".theme");
button.hidden=false;
button.addEventListener("click",()=>{
  const next=themes[(themes.indexOf(root.dataset.theme||"system")+1)%3];
  if(next==="system")delete root.dataset.theme;else root.dataset.theme=next;
  button.textContent="Colours: "+next;
});
for(const sort of document.querySelectorAll(".sort"))sort.addEventListener("click",()=>{
  const cell=sort.parentElement,body=cell.closest("table").tBodies[0],column=cell.cellIndex;
  const up=cell.getAttribute("aria-sort")==="descending";
  for(const other of cell.parentElement.cells)other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort",up?"ascending":"descending");
  const key=row=>row.cells[column].textContent,number=row=>parseFloat(key(row));
  const order=(a,b)=>isNaN(number(a))||isNaN(number(b))?key(a).localeCompare(key(b)):number(a)-number(b);
  body.append(...[...body.rows].sort((a,b)=>up?order(a,b):order(b,a)));
});
