"""Parts of a C99 header: functions as templates, in which words in capitals are replaced, and literals."""

from __future__ import annotations

from typing import Any

import numpy as np

# Bodies of the kernel functions, by type of kernel: see `kernel_functions`
BODIES = {
    "RBF": """    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const double r = (x[columns[i]] - z[columns[i]]) / WIDTHS[columns[i]];
        sum += r * r;
    }
    return exp(-sum);""",
    "Matern": """    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const double r = (x[columns[i]] - z[columns[i]]) / WIDTHS[columns[i]];
        sum += r * r;
    }
    const double r = sqrt(TWICE_NU * (sum < 1e300 ? sum : 1e300));
    return FACTOR * exp(-r);""",
    "Linear": """    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += x[columns[i]] * z[columns[i]];
    return sum;""",
    "Polynomial": """    double sum = COEF0;
    for (int i = 0; i < count; i++)
        sum += x[columns[i]] * z[columns[i]];
    return pow(sum, DEGREE);""",
    "Spline": """    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        const int c = columns[i];
        double a[SIZE], b[SIZE];
        for (int j = 0; j < SIZE; j++) {
            a[j] = SPLINE((x[c] - STARTS[c]) / SPANS[c], KNOTS[c][j]);
            b[j] = SPLINE((z[c] - STARTS[c]) / SPANS[c], KNOTS[c][j]);
        }
        for (int r = 0; r < SIZE; r++) {
            double p = 0.0, q = 0.0;
            for (int j = 0; j < SIZE; j++) {
                p += a[j] * FACTORS[c][j][r];
                q += b[j] * FACTORS[c][j][r];
            }
            sum += p * q;
        }
    }
    return sum;""",
    "Additive": """    double sum = 0.0;
    for (int i = 0; i < count; i++)
        sum += PART0(x, z, columns + i, 1);
    return sum;""",
    "Groups": """    double sum = 0.0;
    (void)count;
    for (int g = 0; g < SIZE; g++) {
        int picked[LONGEST] = {0}, size = 0;
        for (; size < LONGEST && GROUPS[g][size] >= 0; size++)
            picked[size] = columns[GROUPS[g][size]];
        sum += PART0(x, z, picked, size);
    }
    return sum;""",
    "Nothing": """    (void)x, (void)z, (void)columns, (void)count;
    return 0.0;""",
    "Sum": "    return PART0(x, z, columns, count) + PART1(x, z, columns, count);",
    "Product": "    return PART0(x, z, columns, count) * PART1(x, z, columns, count);",
}
# NaN and infinity are detected by their bits, because compilers remove isnan() under -ffast-math
FINITE = """#if DBL_MANT_DIG != 53
#error "This header requires a 64-bit double (avr-gcc: -mdouble=64)."
#endif

static inline uint64_t NAMEmagnitude_bits(const double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    return bits & UINT64_C(0x7fffffffffffffff);
}

static inline int NAMEall_finite(const double *values, int count)
{
    for (int i = 0; i < count; i++)
        if (NAMEmagnitude_bits(values + i) >= UINT64_C(0x7ff0000000000000))
            return 0;
    return 1;
}

static inline void NAMEset_nan(double *values, int count)
{
    const uint64_t bits = UINT64_C(0x7ff8000000000000);
    for (int i = 0; i < count; i++)
        memcpy(values + i, &bits, sizeof bits);
}

static inline int NAMEis_nan(const double *value)
{
    return NAMEmagnitude_bits(value) > UINT64_C(0x7ff0000000000000);
}"""
# The place of a cell among the values of a column; that of an unknown value is their number, a missing cell comes next
FIND = """static inline int NAMEfind_numbers(const double *cell, const double *values, int count)
{
    if (NAMEis_nan(cell))
        return count + 1;
    for (int i = 0; i < count; i++)
        if (*cell == values[i])
            return i;
    return count;
}

static inline int NAMEfind_texts(const char *cell, const char *const *values, int count)
{
    for (int i = 0; cell && i < count; i++)
        if (!strcmp(cell, values[i]))
            return i;
    return cell && *cell ? count : count + 1;
}"""
# The cubic spline kernel of two positions, in units of the knots' span (`kernels.Spline`)
SPLINE = """static inline double NAMEspline_mean(double u)
{
    const double a = u < 0.0 ? 0.0 : u > 1.0 ? 1.0 : u;
    return a * a * (6.0 - 4.0 * a + a * a) / 24.0 + (u > 1.0 ? (u - 1.0) / 6.0 : 0.0);
}

static inline double NAMEspline(double u, double v)
{
    const double low = u < v ? u : v;
    const double a = low < 0.0 ? 0.0 : low > 1.0 ? 1.0 : low;
    const double integral = a * (u * v - a * ((u + v) / 2.0 - a / 3.0));
    return integral - NAMEspline_mean(u) - NAMEspline_mean(v) + 0.05 + u * v - 0.5 * (u + v) + 0.25;
}"""

# The probabilities of the classes from the outputs of their pairs (`coding.couple`), by Gauss-Jordan elimination
COUPLE = """static inline void NAMEcouple(const double *f, double slope, double p[SIZE])
{
    double q[SIZE][SIZE + 1], sum = 0.0;
    for (int a = 0; a < SIZE; a++) {
        for (int b = 0; b < SIZE; b++)
            q[a][b] = 0.0;
        q[a][a] = TINY;
        q[a][SIZE] = 1.0;
    }
    for (int a = 0, pair = 0; a < SIZE; a++)
        for (int b = a + 1; b < SIZE; b++, pair++) {
            double z = slope * f[pair];
            z = z < -50.0 ? -50.0 : z > 50.0 ? 50.0 : z;
            double later = 1.0 / (1.0 + exp(-z));
            later = later < SURE ? SURE : later > 1.0 - SURE ? 1.0 - SURE : later;
            q[a][b] = q[b][a] = -later * (1.0 - later);
            q[a][a] += later * later;
            q[b][b] += (1.0 - later) * (1.0 - later);
        }
    for (int a = 0; a < SIZE; a++) {
        for (int c = a + 1; c <= SIZE; c++)
            q[a][c] /= q[a][a];
        for (int b = 0; b < SIZE; b++)
            for (int c = a + 1; b != a && c <= SIZE; c++)
                q[b][c] -= q[b][a] * q[a][c];
    }
    for (int a = 0; a < SIZE; a++)
        sum += p[a] = q[a][SIZE] > TINY ? q[a][SIZE] : TINY;
    for (int a = 0; a < SIZE; a++)
        p[a] /= sum;
}"""
# The probabilities of the classes from decision values, one or one per class (`coding.probabilities`)
CALIBRATE_ONE = """static inline void NAMEcalibrate(const double f[1], double negative, double positive, double p[2])
{
    const double z = f[0] * (f[0] > 0.0 ? positive : negative);
    p[0] = 1.0 / (1.0 + exp(z));
    p[1] = 1.0 / (1.0 + exp(-z));
}"""
CALIBRATE = """static inline void NAMEcalibrate(const double f[SIZE], double slope, double p[SIZE])
{
    double largest = f[0], sum = 0.0;
    for (int o = 1; o < SIZE; o++)
        largest = f[o] > largest ? f[o] : largest;
    for (int o = 0; o < SIZE; o++)
        sum += p[o] = exp(slope * (f[o] - largest));
    for (int o = 0; o < SIZE; o++)
        p[o] /= sum;
}"""


def c_array(declaration: str, values: Any) -> str:
    return f"static {declaration} = {{{', '.join(values)}}};".replace(", \n", ",\n")


def c_nested(name: str, values: np.ndarray) -> str:
    """An array with any number of dimensions."""

    def braces(part: np.ndarray) -> str:
        if part.ndim == 0:
            return repr(part.item())
        return f"{{{', '.join(map(braces, part))}}}"

    kind = "int" if values.dtype.kind == "i" else "double"
    return f"static const {kind} {name}{''.join(f'[{size}]' for size in values.shape)} = {braces(values)};"


def c_row(values: np.ndarray) -> str:
    return f"\n    {{{', '.join(map(c_number, values))}}}"


def c_number(value: Any) -> str:
    return repr(float(value))


def c_string(text: str) -> str:
    """A C string literal in UTF-8; all but plain characters are octal escapes (no trigraphs, no end of comment)."""
    plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-.,:;+=()<>[]"
    return '"' + "".join(chr(b) if chr(b) in plain else f"\\{b:03o}" for b in text.encode()) + '"'
