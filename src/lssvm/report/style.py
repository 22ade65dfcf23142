"""The style sheet of the page, and its script, which sorts tables and switches the colours."""

STYLE = """
:root{color-scheme:light dark;--ink:light-dark(#1c2733,#e4e9ee);--soft:light-dark(#52606d,#a8b3be);
--paper:light-dark(#fff,#14191f);--card:light-dark(#f4f6f8,#1d252d);--rule:light-dark(#d5dbe1,#36414c);
--blue:light-dark(#1f5fa8,#6fb0f5);--red:light-dark(#a63a1e,#ff9a76);--gold:light-dark(#8f6a00,#e5bf4d);
--good:light-dark(#23694a,#7ad0a5);--violet:light-dark(#7b3fa0,#cf9bf0)}
:root[data-theme=light]{color-scheme:light}
:root[data-theme=dark]{color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:72rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .25rem}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0;max-width:50rem}
a{color:var(--blue)}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;margin:.8rem 0}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.4rem}
:focus-visible{outline:3px solid var(--gold);outline-offset:2px}
.top{display:flex;justify-content:space-between;gap:1rem;align-items:start}
button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--rule);border-radius:4px;cursor:pointer}
.theme{padding:.25rem .7rem;white-space:nowrap}
.sort{background:none;border:0;padding:0;font-weight:inherit;text-align:inherit;text-decoration:underline dotted}
.bad,.good{background:var(--card);border-left:5px solid var(--red);padding:.6rem 1rem .6rem 2rem;margin:.4rem 0}
.good{border-color:var(--good);padding-left:1rem}
.verdict{font-size:1.6rem;line-height:1.25;font-weight:600;margin:.2rem 0 .6rem}
.lead{font-size:1.1rem}
.note{color:var(--soft);font-size:.85rem}
.scroll{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-size:.93rem}
th,td{padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top;
min-width:4rem;max-width:44rem;overflow-wrap:break-word}
.wide{width:100%;max-width:50rem;margin:.6rem 0}
.wide th,.wide td{vertical-align:middle}
.wide tbody th{overflow-wrap:anywhere}
.wide .n{white-space:nowrap;text-align:right;width:1%}
.bars{width:40%}
.bars svg{height:.9rem}
thead th{color:var(--soft);font-weight:600}
tbody th{font-weight:600}
td.n,th.n{font-variant-numeric:tabular-nums}
tr:target{background:var(--card);outline:2px solid var(--gold)}
pre{background:var(--card);padding:.7rem 1rem;overflow-x:auto;border-radius:6px;margin:.4rem 0}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:1rem;align-items:start}
figure h3{margin:0 0 .2rem;font-size:.85rem}
figure p{font-size:.85rem;color:var(--soft)}
figure{margin:0;background:var(--card);border-radius:6px;padding:.5rem}
figcaption{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;color:var(--soft);font-size:.85rem;padding:0 .5rem}
figcaption i{display:inline-block;width:.65rem;height:.65rem;border-radius:50%;margin-right:.35rem}
i.dots{background:var(--blue)}i.half{background:var(--gold)}i.none{background:var(--red)}
i.c0{background:var(--blue)}i.c1{background:var(--red)}i.c2{background:var(--good)}i.c3{background:var(--gold)}
i.c4{background:var(--violet)}i.ring{border:2px solid var(--blue)}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}
svg .title{fill:var(--ink);font-weight:600;font-size:13px}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--rule);stroke-width:.6}.axis{fill:none;stroke:var(--soft)}
.guide{stroke:var(--soft);stroke-dasharray:5 4;fill:none}
.line{fill:none;stroke-width:2}
.c0{stroke:var(--blue)}.c1{stroke:var(--red)}.c2{stroke:var(--good)}.c3{stroke:var(--gold)}.c4{stroke:var(--violet)}
.thin{stroke:var(--blue);opacity:.6}
.dots,.half,.none{fill:none;stroke:var(--blue);stroke-width:5;stroke-linecap:round;opacity:.55}
path.half{stroke:var(--gold);opacity:.9}path.none{stroke:var(--red);opacity:1}
path.big{stroke-width:7;opacity:1}
.ring{fill:var(--card);stroke:var(--blue);stroke-width:2.5}
.link{fill:transparent;stroke:var(--ink);stroke-width:1}
a:hover .link,a:focus .link{fill:var(--gold)}
.bar{fill:var(--blue)}
footer{color:var(--soft);margin:3rem auto 2rem;font-size:.85rem}
@media print{:root{color-scheme:light!important}nav,.theme,.skip{display:none}body{font-size:11pt}
h2{break-after:avoid}figure,tr,pre{break-inside:avoid}.scroll{overflow:visible}
.charts{display:grid;grid-template-columns:1fr 1fr}figure,pre{border:1px solid var(--rule)}
pre{white-space:pre-wrap;overflow:visible}}
"""


SCRIPT = """
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
"""
