// How quick this machine is right now: the time of fixed work, printed beside the times of a run so that runs can be compared.

import { createHash } from 'node:crypto'

/**
 * Hashes 400 MB. A loop in JavaScript will not do: the engine compiles the same loop to code that takes 0.4 s or 2 s.
 *
 * @returns seconds
 */
export function calibrate(): number {
  const piece = Buffer.alloc(1_000_000, 1)
  const startedMs = performance.now()
  const hash = createHash('sha512')
  for (let count = 0; count < 400; count++) hash.update(piece)
  hash.digest()
  return (performance.now() - startedMs) / 1000
}
