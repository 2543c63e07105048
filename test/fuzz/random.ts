// Random numbers from a seed. Each case of a run has its own, so that it can be repeated without the earlier ones.

export interface Random {
  /** A whole number from 0 to below `limit`, which is at most 2^32. */
  below(limit: number): number
  /** A number from 0 to below `limit`, usually a small one. */
  mostlySmall(limit: number): number
  /** True once in this many times. */
  oneIn(times: number): boolean
  pick<T>(from: readonly T[]): T
  bytes(length: number): Uint8Array
}

/**
 * Opens the generator of one case: Marsaglia's xorshift128 (Journal of Statistical Software 8, 2003). It depends on all three parameters.
 *
 * @param seed of the run
 * @param kind of the case
 * @param ordinal of the case among those of its kind
 */
export function openRandom(seed: number, kind: string, ordinal: number): Random {
  let x = mixed(seed ^ 0x9e3779b9)
  let y = mixed(hashOf(kind) ^ x)
  let z = mixed(ordinal ^ y)
  let w = mixed(Math.floor(ordinal / 2 ** 32) ^ z) | 1

  function bits(): number {
    const mix = x ^ (x << 11)
    x = y
    y = z
    z = w
    w = w ^ (w >>> 19) ^ mix ^ (mix >>> 8)
    return w >>> 0
  }

  function below(limit: number): number {
    return Math.floor((bits() / 2 ** 32) * limit)
  }

  return {
    below,
    mostlySmall(limit) {
      const unit = bits() / 2 ** 32
      return Math.floor(unit * unit * unit * limit)
    },
    oneIn: times => below(times) === 0,
    pick: from => from[below(from.length)]!,
    bytes(length) {
      const made = new Uint8Array(length)
      for (let at = 0; at < length; at++) made[at] = bits() >>> 24
      return made
    },
  }
}

/** The finalizer of MurmurHash3, so that consecutive seeds give unrelated sequences. */
function mixed(number: number): number {
  let hash = number | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}

function hashOf(text: string): number {
  let hash = 0
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0
  return hash
}
