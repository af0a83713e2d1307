// ε and δ of n shuffled reports of any ε₀-DP randomizer by the strong clones, from above: docs/theory/numerics.md, section 5.
//
// n·δ(ε) = E[(W₁ + … + Wₙ)₊], where W is e^ε₀ − e^ε or 1 − e^(ε₀ + ε) with probability r = 1/(e^ε₀ + 1) each, and else 0.
// Clones are counted where few are expected; else the sum is smoothed, which only makes the mean larger, and inverted.

const UNIT = 2 ** -53;
const MOST_COUNTED = 5e7; // expected clones, up to which they are counted
const LOST = 1e-29; // more than the probability of all that windows leave out

/** Return the probabilities of a window of Bin(count, p), divided by their sum: all but 1e-30 of it. */
function binomial(count, p) {
  const width = 12 * Math.sqrt(count * p * (1 - p)) + 90;
  const mode = Math.min(Math.floor((count + 1) * p), count);
  const first = Math.max(0, Math.floor(mode - width));
  const last = Math.min(count, Math.ceil(mode + width));
  const values = new Float64Array(last - first + 1);
  const odds = p / (1 - p);
  let sum = (values[mode - first] = 1);
  for (let k = mode + 1; k <= last; k++) sum += values[k - first] = (values[k - 1 - first] * (count - k + 1) * odds) / k;
  for (let k = mode - 1; k >= first; k--) sum += values[k - first] = (values[k + 1 - first] * (k + 1)) / ((count - k) * odds);
  return { first, last, values: values.map((value) => value / sum) };
}

/** Return δ of ε: over the number c of clones, the sum of gain·b(c, k) − (e^ε − 1)·T(c, k), with T of more than k heads. */
function counted(reports, local) {
  const r = 1 / (Math.exp(local) + 1);
  const { first, last, values } = binomial(reports - 1, 2 * r);
  const heads = binomial(first, 0.5);
  return (epsilon) => {
    const more = Math.expm1(epsilon);
    const gain = Math.exp(epsilon) * Math.expm1(local - epsilon) * r;
    const share = Math.expm1(local + epsilon) / ((more + 2) * Math.expm1(local));
    const most = (c) => Math.min(Math.floor(share * (c + 1)), c);
    // In units of b(last, k), from the largest c down, where T only grows: its error remains small.
    let [k, mass, tail, sum, wrong] = [most(last), 1, 0, 0, 0];
    for (let term = 1, i = k; term > 1e-18 * tail && i < last; i++) tail += term *= (last - i) / (i + 1);
    let loose = 16 * UNIT * (2 * (last - first) + heads.last - heads.first + 64); // relative error of weights and masses
    let error = tail * UNIT * (32 * Math.sqrt(last) + 256);
    for (let c = last; ; c--) {
      const weight = values[c - first];
      sum += weight * (gain * mass - more * tail);
      wrong += weight * (more * error + (loose + 64 * UNIT) * (gain * mass + more * tail) + 32 * UNIT * (more + 2) * mass);
      if (c === first) break;
      if (most(c - 1) < k) {
        mass *= (2 * k) / c;
        k -= 1;
        tail += (mass * (c - 1 - k)) / (2 * (k + 1));
      } else {
        mass *= (2 * (c - k)) / c;
        tail -= mass / 2;
      }
      error += 2 * UNIT * Math.abs(tail) + loose * mass;
      loose += 6 * UNIT;
      if (mass > 1e200) [mass, tail, error, sum, wrong] = [mass, tail, error, sum, wrong].map((part) => part * 1e-200);
    }
    const unit = k <= heads.last ? heads.values[k - heads.first] / mass : 0;
    return (sum + wrong) * unit * (1 + 2 * loose) + 4 * LOST;
  };
}

/** Return δ of ε, by a sum along Re s = θ of M(s)ⁿ·exp(s²v/2)/s²: aliases are positive, and all that is left out is added. */
function inverted(reports, local) {
  const r = 1 / (Math.exp(local) + 1);
  return (epsilon) => {
    const high = Math.exp(epsilon) * Math.expm1(local - epsilon);
    const low = -Math.expm1(local + epsilon);
    const far = Math.PI / (high - low); // up to here |M| falls like a Gaussian function
    const smooth = 60 / far ** 2;
    const variance = reports * r * (high ** 2 + low ** 2) + smooth;
    const mean = reports * Math.expm1(epsilon);
    const theta = (mean + Math.sqrt(mean ** 2 + 8 * variance)) / (2 * variance);
    const deviation = Math.sqrt(variance);
    const from = mean / deviation;
    const step = (2 * Math.PI) / (deviation * Math.max(8, (from ** 2 / 2 + 28) / (theta * deviation)));
    /** Return log(M(s)ⁿ·exp(s²v/2)) at s = θ + iu, its real and its imaginary part. */
    const power = (u) => {
      let [real, imaginary] = [0, 0];
      for (const value of [high, low]) {
        const half = Math.sin((u * value) / 2);
        real += r * (Math.expm1(theta * value) * Math.cos(u * value) - 2 * half * half);
        imaginary += r * Math.exp(theta * value) * Math.sin(u * value);
      }
      return [
        (reports / 2) * Math.log1p(2 * real + real ** 2 + imaginary ** 2) + ((theta ** 2 - u ** 2) * smooth) / 2,
        reports * Math.atan2(imaginary, 1 + real) + theta * u * smooth,
      ];
    };
    const [top] = power(0);
    const [up, down] = [r * Math.exp(theta * high), r * Math.exp(theta * low)];
    const whole = 1 - 2 * r + up + down;
    // Var of W under the tilt, from its pairs of values: |M(θ + iu)|ⁿ ≤ M(θ)ⁿ·exp(−fall·u²) up to `far`.
    const pairs = (1 - 2 * r) * (up * high ** 2 + down * low ** 2) + up * down * (high - low) ** 2;
    const fall = ((2 * reports * pairs) / (Math.PI * whole) ** 2) * (1 - 1e-9);
    const count = Math.min(Math.ceil(Math.sqrt(45 / fall) / step), Math.floor(far / step));
    let sum = 1 / theta ** 2;
    let size = sum;
    for (let j = 1; j <= count; j++) {
      const u = j * step;
      const [real, imaginary] = power(u);
      const weight = Math.exp(real - top) / (theta ** 2 + u ** 2) ** 2;
      // 1/s² = (θ² − u² − 2iθu)/|s|⁴
      sum += 2 * weight * (Math.cos(imaginary) * (theta ** 2 - u ** 2) + Math.sin(imaginary) * 2 * theta * u);
      size += 2 * weight * (theta ** 2 + u ** 2);
    }
    const end = (count + 1) * step;
    const [inner, outer] = [end - step, far - step];
    let rest = Math.exp((-smooth * outer ** 2) / 2) / (smooth * outer ** 3);
    if (end < far) rest += Math.exp(-fall * inner ** 2) / (2 * fall * inner ** 3);
    const reach = theta + end;
    const loose = 32 * UNIT * (reports * r * reach * (high - low) * (1 + theta * high) + 64);
    const bound = (step / (2 * Math.PI)) * (sum + size * Math.expm1(loose)) + rest / Math.PI;
    return (Math.exp(top) * bound * (1 + loose)) / reports;
  };
}

/** Return the function δ(ε), never below that of the strong clones; `reports` and ε₀ up to 1e12 and 20. */
export function profile(reports, local) {
  const clones = (2 * reports) / (Math.exp(local) + 1);
  const delta = (clones <= MOST_COUNTED ? counted : inverted)(reports, local);
  return (epsilon) => (epsilon >= local ? 0 : Math.min(Math.max(delta(epsilon), 1e-300), 1));
}

/** Return ε at which δ holds, never below that of the pair: the profile at the answer is at most δ. */
export function amplified(reports, local, delta) {
  const of = profile(reports, local);
  let [low, high, last, reached] = [0, local, 0, of(0)];
  if (reached <= delta) return 0;
  let lastAt = Math.log(reached / delta);
  const spread = Math.expm1(local) * Math.sqrt(2 / (reports * (Math.exp(local) + 1)));
  let guess = Math.min(spread * Math.sqrt(-2 * Math.log(delta)), local / 2);
  for (let i = 0; i < 60 && high - low > 1e-9 * high; i++) {
    reached = of(guess);
    const at = Math.log(reached / delta);
    const slope = (at - lastAt) / (guess - last);
    // Neighbours share a logarithm.
    if (reached <= delta) {
      high = guess;
      if (-at <= 1e-8 * -slope * guess) break;
    } else low = guess;
    [last, lastAt] = [guess, at];
    // A secant beyond its root, or the middle.
    guess = (guess - at / slope) * (1 + 2e-9);
    if (!(guess > low && guess < high)) guess = (low + high) / 2;
  }
  return high;
}
