// Fills payloads to a size: one part again and again, or many that differ.

/** A part as often as it fits between what stands before and after it. */
export function filled(bytes: number, part: string, before = '', after = ''): string {
  const room = bytes - Buffer.byteLength(before) - Buffer.byteLength(after)
  return before + part.repeat(Math.max(Math.floor(room / Buffer.byteLength(part)), 0)) + after
}

/** As many parts as fit, each by its ordinal, with a comma between two of them. */
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

/** The same of bytes, with what the number of parts makes before them. */
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
 * How long a payload is that is nothing but small items, as many as are allowed: 8,192, and one for each 32 bytes. Beside its length it
 * takes the most memory.
 */
export function shortestFull(bytes: number, itemBytes: number): number {
  return Math.min(bytes, Math.floor(8192 / (1 / itemBytes - 1 / 32)) - 4 * itemBytes)
}
