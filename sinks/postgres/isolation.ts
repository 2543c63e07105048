// Copies a table's rows inside a transaction, finding the messages that the store refuses and leaving out no other.
//
// Everything goes in one COPY under a savepoint. Where the store refuses a row as data, PostgreSQL names its line, which is a
// row, which is a message. Then: back to the savepoint, the messages before the culprit in one piece, then from behind it on
// in small pieces that double with each success. So a batch with nothing but refused messages costs one short attempt for
// each of them, and one with a single culprit sends every row about twice. Where no line is named, the piece is halved until the
// culprit is alone in it.

import { DatabaseError, type Transaction } from '../../config/postgres/database.ts'
import type { Rejection } from '../sink.ts'
import { excerpt, trailerLength } from './copy-bytes.ts'
import type { EncodedTable } from './encoded-batch.ts'
import { meaningOf } from './sql-states.ts'

/** How many messages are tried at once behind a culprit, where the next one is likely. */
const messagesBehindCulprit = 4

/** True where the store refuses a row because of what it holds. */
export function isDataError(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && meaningOf(error.sqlState) === 'data'
}

/**
 * @param target the table with its columns, quoted
 * @param leftOut messages that are not to be written: stored before, or refused before
 * @returns the messages that the store refuses; the rows of all others are written
 * @throws DatabaseError that is not about data; the transaction has failed then
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
  /** The row's place in the table; undefined where the store has named none. */
  readonly row: number | undefined
}

/** What a line of the COPY of these units is; where no line is named, the only unit there is, else undefined. */
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
  return alone // a line that is none of ours says as much as no line
}

function rejectionOf(table: EncodedTable, { unit, row }: RowAtFault, error: DatabaseError): Rejection {
  return {
    message: table.unitMessage[unit]!,
    rule: 'store-refused',
    ...(row === undefined ? {} : { record: table.recordIndex[row]! }),
    reason: `PostgreSQL refused it (SQLSTATE ${error.sqlState}): ${error.message}`,
  }
}
