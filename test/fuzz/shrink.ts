// Shortens a failing input while it still fails: the rest shows the fault.

/**
 * Removes pieces of an input, large ones first, while the rest still fails; then replaces bytes with one plain byte.
 *
 * @param fails whether an input fails in the same way, which the given one does
 * @param triesMax maximum number of calls
 */
export function shrink(input: Uint8Array, fails: (candidate: Uint8Array) => boolean, triesMax = 4000): Uint8Array {
  let best = input
  let tries = 0

  function take(candidate: Uint8Array): boolean {
    if (tries++ >= triesMax || !fails(candidate)) return false
    best = candidate
    return true
  }

  for (let piece = best.length >> 1; piece > 0; piece >>= 1) {
    let again = true
    while (again && tries < triesMax) {
      again = false
      for (let at = best.length - piece; at >= 0 && tries < triesMax; at -= piece) {
        if (take(Buffer.concat([best.subarray(0, at), best.subarray(at + piece)]))) again = true
      }
    }
  }
  for (let at = 0; at < best.length && tries < triesMax; at++) {
    if (best[at] !== plainByte) take(best.with(at, plainByte))
  }
  return best
}

const plainByte = '0'.charCodeAt(0)
