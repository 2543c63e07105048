// How quick this machine is right now: the time of a fixed loop, printed beside the times of a run so that runs can be compared.

/** @returns seconds */
export function calibrate(): number {
  const startedMs = performance.now()
  let sum = 0
  for (let index = 0; index < 400_000_000; index++) sum = (Math.imul(sum, 31) + index) | 0
  const seconds = (performance.now() - startedMs) / 1000
  // The result is used, so that the loop is not optimized away.
  return sum === Infinity ? 0 : seconds
}
