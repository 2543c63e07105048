// Maps a key to its partition like Java's default partitioner, so that all producers of a topic agree.
//
// murmur2 of the key's bytes (org.apache.kafka.common.utils.Utils), its sign bit cleared, modulo the number of partitions.

const seed = 0x9747b28c
const factor = 0x5bd1e995

/** MurmurHash 2 of the bytes, as a signed 32-bit number. */
export function murmur2(bytes: Uint8Array): number {
  const { length } = bytes
  const wordsEnd = length & ~3
  let hash = seed ^ length
  for (let at = 0; at < wordsEnd; at += 4) {
    let word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    word = Math.imul(word, factor)
    word ^= word >>> 24
    hash = Math.imul(hash, factor) ^ Math.imul(word, factor)
  }
  const rest = length - wordsEnd
  if (rest > 0) {
    if (rest === 3) hash ^= bytes[wordsEnd + 2]! << 16
    if (rest >= 2) hash ^= bytes[wordsEnd + 1]! << 8
    hash = Math.imul(hash ^ bytes[wordsEnd]!, factor)
  }
  hash = Math.imul(hash ^ (hash >>> 13), factor)
  return hash ^ (hash >>> 15)
}

/** The partition of a key, which may be empty. */
export function partitionOf(key: Uint8Array, partitions: number): number {
  return (murmur2(key) & 0x7fffffff) % partitions
}
