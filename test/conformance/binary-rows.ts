// Builds COPY data in PostgreSQL's binary format for tests (PostgreSQL manual, COPY, "Binary Format").

/** A column's bytes; null for NULL. */
export type Column = Uint8Array | null

/** Signature, flags and extension, then each row as a count of columns and each column as a length and its bytes, then -1. */
export function binaryRows(rows: readonly (readonly Column[])[]): Uint8Array {
  const pieces: Uint8Array[] = [Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), new Uint8Array(8)]
  for (const row of rows) {
    pieces.push(int2(row.length))
    for (const column of row) pieces.push(int4(column === null ? -1 : column.length), column ?? new Uint8Array(0))
  }
  pieces.push(int2(-1))
  return Buffer.concat(pieces)
}

export function int2(value: number): Uint8Array {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

export function int4(value: number): Uint8Array {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

export function text(value: string): Uint8Array {
  return Buffer.from(value)
}
