// The points of a batch: a point is identified by its series and time, so the time also keeps messages apart: it is the row's millisecond, and below it a
// number from the message's offset. What the millisecond lacks is in the field `/index`: the ordinal of the row × 1000 + the microseconds below it. They
// share a field because each field of a point has its own copy of the time (README.md has the bytes).

/** How many nanoseconds there are below a millisecond. */
const restNsCount = 1_000_000

/**
 * The nanoseconds below the millisecond of a message's points, 0 to 999,999. They differ for any million consecutive offsets of a partition; in
 * partition 0 of the first log they are the offset mod 1,000,000. Each log and partition begins at another number, far from the others, since offsets
 * of the partitions of a topic grow alike, and those of a recreated topic begin at 0 again.
 */
export function restNsOf(log: number, partition: number, offset: number): number {
  return (offset + partition * 632_787 + (log - 1) * 217_581) % restNsCount
}

/** The millisecond of a time in microseconds. */
export function msOf(timeUs: number): number {
  return Math.floor(timeUs / 1000)
}

/** The value of `/index`. */
export function indexField(index: number, timeUs: number): number {
  return index * 1000 + (timeUs - msOf(timeUs) * 1000)
}

/** The ordinal of the row in its message, from the value of `/index`. */
export function ordinalOf(indexField: number): number {
  return Math.floor(indexField / 1000)
}

/** The microseconds below the millisecond, from the value of `/index`. */
export function restUsOf(indexField: number): number {
  return indexField - ordinalOf(indexField) * 1000
}

/** InfluxDB's times range from -9223372036854775806 to 9223372036854775806 ns; doubles represent whole microseconds up to slightly less. */
const timeUsMax = Number.MAX_SAFE_INTEGER

export function timeIsKept(timeUs: number): boolean {
  return timeUs >= -timeUsMax && timeUs <= timeUsMax
}

/** Lines of line protocol, one for each row. The lines of a message are consecutive. */
export interface EncodedLines {
  readonly length: number
  readonly bytes: Uint8Array
  /** By line, where it begins in `bytes`; one more entry for the end of the last. */
  readonly start: Uint32Array
  /** By line, the index of its message. */
  readonly message: Uint32Array
  /** By line, the record's ordinal in its message. */
  readonly record: Uint32Array
  /** By line, microseconds since 1970. */
  readonly timeUs: Float64Array
}

/** A line without its line end. */
export function textOf({ bytes, start }: EncodedLines, line: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start[line]!, start[line + 1]! - start[line]! - 1).toString('utf8')
}

/** The time of a line written here, nanoseconds since 1970. */
export function nsOfLine(line: string): bigint {
  return BigInt(line.slice(line.lastIndexOf(' ') + 1))
}
