// Numbers as text: a guarantee and noise are rounded up; a lower bound, and an ε₀ that is typed again, down.

const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** Return a number ≥ 0 with so many digits, and not on the unsafe side: `way` is 1 for up, −1 for down, 0 for the nearest. */
function cut(value, way, digits) {
  if (value === 0) return "0";
  let [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  if (way * (Number(`${mantissa}e${exponent}`) - value) < 0) {
    mantissa = (Number(mantissa) + way * 10 ** (1 - digits)).toFixed(digits - 1);
  }
  const size = Number(exponent);
  if (size < -4 || size > 9) return `${Number(mantissa)}e${size}`;
  const text = Number(`${mantissa}e${size}`).toFixed(Math.max(digits - 1 - size, 0));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export const up = (value, digits = 6) => cut(value, 1, digits);
export const down = (value, digits = 6) => cut(value, -1, digits);
export const about = (value, digits = 3) => cut(value, 0, digits);

/** Return a whole number with commas, or a power of ten. */
export function count(value) {
  if (value < 1e7) return value.toLocaleString("en");
  const [mantissa, exponent] = value.toExponential(3).split("e");
  const power = `10${[...String(Number(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("")}`;
  return Number(mantissa) === 1 ? power : `${Number(mantissa)} × ${power}`;
}

/** Return a share as percent, rounded up. */
export const percent = (value) => `${up(100 * value, 3)} %`;

/** Return the number in a text as people type it, or NaN. */
export function typed(text) {
  const plain = text.trim().replaceAll("_", "");
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}
