// sum_j k(x_i, z_j) v_jq for the kernels that depend on the distance, without storing any kernel value.
//
// Compiled with: REAL (float or double), COLUMNS of X, VECTORS v, TWICE_NU (0 for the Gaussian kernel).
// t is the scaled distance (its square for the Gaussian kernel); SERIES is that of k - 1 in t, for small t.
// Values in single precision are those of k - 1, which has more digits than k near 1.
// A row of `points` holds z_j, then v_j, and zeros up to WIDTH values. Each of BLOCK threads computes two rows.
// Sums in single precision are those over a tile.

#define WIDTH ((COLUMNS + VECTORS + 3) / 4 * 4)  // reads of four values at a time
#define TILE 64

static __device__ REAL value(REAL square)
{
    const REAL shift = sizeof(REAL) == 4 ? REAL(0) : REAL(1);
    square = square < REAL(1e30) ? square : REAL(1e30);
#if TWICE_NU == 0
    const REAL t = square;
#else  // a step of Newton's method doubles the digits of the root in single precision
    square = REAL(TWICE_NU) * square + REAL(1e-30);
    const REAL inverse = rsqrtf(float(square)), root = square * inverse;
    const REAL t = root + REAL(0.5) * inverse * (square - root * root);
#endif
    if (t < REAL(0.5))
        return SERIES + shift;
    const REAL k = (REAL(1) + REAL(TWICE_NU > 1) * t * (REAL(1) + REAL(TWICE_NU > 3) * t / REAL(3))) * exp(-t);
    return k + (shift - REAL(1));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
product(const REAL *X, const REAL *points, double *out, const long long *sizes)
{
    __shared__ __align__(16) REAL tile[TILE * WIDTH];
    const long long rows = sizes[0], count = sizes[1];
    const long long first = (long long)blockIdx.x * (2 * BLOCK) + threadIdx.x;
    REAL x[2][COLUMNS], part[2][VECTORS];
    double total[2][VECTORS];
    for (int r = 0; r < 2; ++r) {
        const long long i = first + r * BLOCK;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            x[r][c] = i < rows ? X[i * COLUMNS + c] : REAL(0);
#pragma unroll
        for (int q = 0; q < VECTORS; ++q)
            total[r][q] = part[r][q] = REAL(0);
    }
    for (long long start = 0; start < count; start += TILE) {
        __syncthreads();
        for (int t = threadIdx.x; t < TILE * WIDTH; t += BLOCK)
            tile[t] = start + t / WIDTH < count ? points[start * WIDTH + t] : REAL(0);
        __syncthreads();
        for (int j = 0; j < TILE; ++j) {
            const REAL *z = tile + j * WIDTH;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                REAL square = REAL(0);
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c)
                    square += (x[r][c] - z[c]) * (x[r][c] - z[c]);
                const REAL k = value(square);
#pragma unroll
                for (int q = 0; q < VECTORS; ++q)
                    part[r][q] += k * z[COLUMNS + q];
            }
        }
#pragma unroll
        for (int r = 0; r < (sizeof(REAL) == 4 ? 2 : 0); ++r)
#pragma unroll
            for (int q = 0; q < VECTORS; ++q) {
                total[r][q] += part[r][q];
                part[r][q] = REAL(0);
            }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
        if (first + r * BLOCK < rows)
#pragma unroll
            for (int q = 0; q < VECTORS; ++q)
                out[q * rows + first + r * BLOCK] = total[r][q] + part[r][q];
}
