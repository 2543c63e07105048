// Writes rows in COPY's binary format to a growing buffer, and finds the rows that the server refuses. From PostgreSQL's manual, COPY, "Binary Format":
//
//   file   = "PGCOPY\n" FF "\r\n" 00, flags int32 = 0, extension length int32 = 0, tuple*, int16 = -1
//   tuple  = number of fields int16, field*
//   field  = length int32 (-1 is NULL), that many bytes; integers and floats big-endian

import type { DatabaseError, Transaction } from '../../database/database.ts'
import type { Rejection } from '../sink.ts'
import { isDataError } from './errors.ts'

/**
 * The rows of one table, and where each message's rows begin, since a message is stored or refused as a whole. All rows of a message are in one
 * table, since its documents share the last part of its subtopic.
 */
export interface EncodedTable {
  readonly format: string
  /** The channels whose messages are in it, in case the table has to be created. */
  readonly channels: ReadonlySet<string>
  readonly rows: number
  /** A complete COPY file. */
  readonly bytes: Uint8Array
  /** By unit, which is a message with rows in this table: its index in the message columns, its first row, and where that begins in `bytes`. */
  readonly unitMessage: readonly number[]
  readonly unitRow: readonly number[]
  readonly unitByte: readonly number[]
  /** By row, the record's ordinal in its message. */
  readonly recordIndex: readonly number[]
}

const signature = Uint8Array.of(0x50, 0x47, 0x43, 0x4f, 0x50, 0x59, 0x0a, 0xff, 0x0d, 0x0a, 0x00, 0, 0, 0, 0, 0, 0, 0, 0)
const headerLength = signature.length
const trailerLength = 2

/** The caller reserves space, then writes: only `reserve`, `json` and `finish` check the end of the buffer. */
export class CopyBytes {
  bytes: Buffer
  view: DataView
  /** Where the next byte goes. */
  at: number

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(Math.max(capacity, headerLength + trailerLength))
    this.view = new DataView(this.bytes.buffer)
    this.bytes.set(signature)
    this.at = headerLength
  }

  /** Reserves space for this many more bytes. */
  reserve(length: number): void {
    const needed = this.at + length + trailerLength
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
    this.view = new DataView(larger.buffer)
  }

  /** A text field: at most 4 + 3 × value.length bytes. */
  text(value: string): void {
    const start = this.at + 4
    const written = this.bytes.write(value, start)
    this.view.setInt32(this.at, written)
    this.at = start + written
  }

  /** A jsonb field: the version of the format, 1, before its text. */
  json(text: string): void {
    this.reserve(5 + 3 * text.length)
    const start = this.at + 5
    const written = this.bytes.write(text, start)
    this.view.setInt32(this.at, written + 1)
    this.bytes[start - 1] = 1
    this.at = start + written
  }

  /** A bytea field: 4 + value.length bytes. */
  data(value: Uint8Array): void {
    this.view.setInt32(this.at, value.length)
    this.bytes.set(value, this.at + 4)
    this.at += 4 + value.length
  }

  /** A float8 field: 12 bytes. */
  float64(value: number): void {
    this.view.setInt32(this.at, 8)
    this.view.setFloat64(this.at + 4, value)
    this.at += 12
  }

  /** An int8 field by its halves, the upper one signed or not: 12 bytes. */
  int64(high: number, low: number): void {
    this.view.setInt32(this.at, 8)
    this.view.setInt32(this.at + 4, high)
    this.view.setInt32(this.at + 8, low)
    this.at += 12
  }

  /** An int4 field: 8 bytes. */
  int32(value: number): void {
    this.view.setInt32(this.at, 4)
    this.view.setInt32(this.at + 4, value)
    this.at += 8
  }

  /** A boolean field: 5 bytes. */
  boolean(value: number): void {
    this.view.setInt32(this.at, 1)
    this.bytes[this.at + 4] = value
    this.at += 5
  }

  /** A NULL field: 4 bytes. */
  none(): void {
    this.view.setInt32(this.at, -1)
    this.at += 4
  }

  /** Starts a tuple with its number of fields: 2 bytes. */
  fields(count: number): void {
    this.view.setInt16(this.at, count)
    this.at += 2
  }

  /** Copies bytes that were written before. */
  again(start: number, end: number): void {
    this.bytes.copyWithin(this.at, start, end)
    this.at += end - start
  }

  /** Returns the whole file, with its trailer. */
  finish(): Uint8Array {
    this.view.setInt16(this.at, -1)
    return this.bytes.subarray(0, this.at + trailerLength)
  }
}

/** A COPY file with only these ranges `[start, end)` of a finished file's tuples. */
function excerpt(file: Uint8Array, stretches: readonly (readonly [start: number, end: number])[]): Uint8Array {
  let length = 0
  for (const [start, end] of stretches) length += end - start
  const part = new Uint8Array(headerLength + length + trailerLength)
  part.set(signature)
  let at = headerLength
  for (const [start, end] of stretches) {
    part.set(file.subarray(start, end), at)
    at += end - start
  }
  part.fill(0xff, at)
  return part
}

/** How many messages are tried together after a refused one, since more are likely to follow. */
const messagesBehindCulprit = 4

/**
 * Copies a table's rows inside a transaction. Finds the messages that the store refuses, and leaves out no others.
 *
 * All rows go in one COPY under a savepoint. If the store refuses a row as data, PostgreSQL names its line, which identifies the row and so the
 * message. Then it rolls back to the savepoint, copies the messages before the refused one in one piece, and those after it in small pieces that
 * double with each success. So a batch of only refused messages costs one short attempt for each, and a batch with a single one sends every row about
 * twice. If no line is named, the piece is halved until the refused message is alone in it.
 *
 * @param target the table with its columns, quoted
 * @param leftOut messages not to write: stored or refused before
 * @returns the messages that the store refuses; the rows of all others are written
 * @throws DatabaseError that is not about data; the transaction has then failed
 */
export async function copyTable(
  transaction: Transaction,
  target: string,
  table: EncodedTable,
  leftOut: { has(message: number): boolean; readonly size: number },
): Promise<Rejection[]> {
  const rejections: Rejection[] = []
  const units = remainingUnits(table, leftOut)
  if (units.length === 0) return rejections
  const refused = new Set<number>()
  let start = 0
  let size = units.length
  await transaction.execute('SAVEPOINT piece')
  while (start < units.length) {
    const end = Math.min(start + size, units.length)
    const piece = units.slice(start, end).filter(unit => !refused.has(unit))
    if (piece.length > 0) {
      const failure = await attempt(transaction, target, bytesOf(table, piece))
      if (failure !== undefined) {
        await transaction.execute('ROLLBACK TO SAVEPOINT piece')
        const row = rowAt(table, piece, failure.line)
        if (row === undefined) {
          size = Math.max(1, Math.floor((end - start) / 2))
          continue
        }
        refused.add(row.unit)
        rejections.push(rejectionOf(table, row, failure))
        size = units.indexOf(row.unit, start) - start || messagesBehindCulprit
        continue
      }
    }
    const behindCulprit = refused.has(units[end] ?? -1)
    start = end
    size = behindCulprit ? messagesBehindCulprit : size * 2
    await transaction.execute(start < units.length ? 'RELEASE SAVEPOINT piece; SAVEPOINT piece' : 'RELEASE SAVEPOINT piece')
  }
  return rejections
}

async function attempt(transaction: Transaction, target: string, bytes: Uint8Array): Promise<DatabaseError | undefined> {
  try {
    await transaction.copy(target, bytes)
    return undefined
  } catch (error) {
    if (isDataError(error)) return error
    throw error
  }
}

function remainingUnits(table: EncodedTable, leftOut: { has(message: number): boolean; readonly size: number }): number[] {
  const units: number[] = []
  for (let unit = 0; unit < table.unitMessage.length; unit++) {
    if (leftOut.size === 0 || !leftOut.has(table.unitMessage[unit]!)) units.push(unit)
  }
  return units
}

/** The COPY file of some units, ascending. */
function bytesOf(table: EncodedTable, units: readonly number[]): Uint8Array {
  if (units.length === table.unitMessage.length) return table.bytes
  const stretches: [number, number][] = []
  for (const unit of units) {
    const start = table.unitByte[unit]!
    const end = table.unitByte[unit + 1] ?? table.bytes.length - trailerLength
    const last = stretches.at(-1)
    if (last !== undefined && last[1] === start) last[1] = end
    else stretches.push([start, end])
  }
  return excerpt(table.bytes, stretches)
}

interface RowAtFault {
  readonly unit: number
  /** The row's index in the table; undefined if the store named none. */
  readonly row: number | undefined
}

/** Maps a line of the COPY of these units to its row; without a line, returns the only unit, or undefined if there are several. */
function rowAt(table: EncodedTable, units: readonly number[], line: number | undefined): RowAtFault | undefined {
  const alone = units.length === 1 ? { unit: units[0]!, row: undefined } : undefined
  if (line === undefined || line < 1) return alone
  let before = line - 1
  for (const unit of units) {
    const first = table.unitRow[unit]!
    const rows = (table.unitRow[unit + 1] ?? table.rows) - first
    if (before < rows) return { unit, row: first + before }
    before -= rows
  }
  return alone // a line out of range says as much as none
}

function rejectionOf(table: EncodedTable, { unit, row }: RowAtFault, error: DatabaseError): Rejection {
  return {
    message: table.unitMessage[unit]!,
    rule: 'store-refused',
    ...(row === undefined ? {} : { record: table.recordIndex[row]! }),
    reason: `PostgreSQL refused it (SQLSTATE ${error.sqlState}): ${error.message}`,
  }
}
