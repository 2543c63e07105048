// The worst cases of a table, and how their payloads are filled to a size: with one repeated part, or many different ones.

/** A row in a table of worst cases: its name, its outcome, and its generator. */
export type WorstCase = readonly [name: string, outcome: string, make: (bytes: number) => string | Uint8Array]

/** Repeats a part as often as it fits between `before` and `after`. */
export function filled(bytes: number, part: string, before = '', after = ''): string {
  const space = bytes - Buffer.byteLength(before) - Buffer.byteLength(after)
  return before + part.repeat(Math.max(Math.floor(space / Buffer.byteLength(part)), 0)) + after
}

/** As many parts as fit, each by its ordinal, separated by commas. */
export function listed(bytes: number, partOf: (at: number) => string, before = '', after = ''): string {
  const parts: string[] = []
  let length = Buffer.byteLength(before) + Buffer.byteLength(after)
  for (let at = 0; ; at++) {
    const part = partOf(at)
    length += Buffer.byteLength(part) + 1
    if (length > bytes + 1) return before + parts.join(',') + after
    parts.push(part)
  }
}

/** The same with bytes, preceded by bytes that depend on the number of parts. */
export function counted(bytes: number, partOf: (at: number) => Uint8Array, beforeOf: (count: number) => Uint8Array): Uint8Array {
  const parts: Uint8Array[] = []
  let length = 16
  for (let at = 0; ; at++) {
    const part = partOf(at)
    length += part.length
    if (length > bytes) return Uint8Array.from(Buffer.concat([beforeOf(parts.length), ...parts]))
    parts.push(part)
  }
}

/**
 * The size of a payload with only small items, as many as allowed: 8,192, and one for each 32 bytes. It takes the most memory relative to its
 * size.
 */
export function shortestFull(bytes: number, itemBytes: number): number {
  return Math.min(bytes, Math.floor(8192 / (1 / itemBytes - 1 / 32)) - 4 * itemBytes)
}
