// Sends the requests of one attempt to write a batch, and finds the rows that the server refuses.
//
// All statements of an attempt have one timestamp, so that it does not matter in which order they reach which node, or what its clock says: the rows that
// an attempt takes away are gone, since of a row and a tombstone of the same timestamp the tombstone counts.

import type { Client, QueryOptions } from 'cassandra-driver'
import type { Rejection } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch, EncodedRequest, EncodedRow, EncodedTable } from './encoded-batch.ts'
import { meaningOf } from './errors.ts'
import { type Pace, sendAll } from './in-flight.ts'
import { keyLength, rowStatements, schemaTable } from './statements.ts'

export interface RowWriter {
  /**
   * The requests of these tables without the rows of messages that are rejected. Returns the rows that the server refuses, and that are not in the
   * store already; the others are durable.
   *
   * @throws SinkError (systemic) where the server refuses every row, whatever is in it
   */
  insert(tables: readonly EncodedTable[], encoded: Pick<EncodedBatch, 'rejected'>): Promise<readonly Rejection[]>
  /** Statements that stand for themselves, each with its values. */
  execute(statements: readonly Statement[]): Promise<void>
  /**
   * Takes away the rows of these messages, also those that a machine whose clock is ahead has written.
   *
   * @returns the latest timestamp that any was deleted as of
   * @throws SinkError (transient) where some are there whatever is done
   */
  remove(tables: readonly EncodedTable[], messages: { has(message: number): boolean }): Promise<number>
  /** How many rows of these messages are not in the store. */
  missing(tables: readonly EncodedTable[], messages: { has(message: number): boolean }): Promise<number>
}

/** A row with the format of its table. */
type PlacedRow = readonly [format: string, row: EncodedRow]

interface FoundRow {
  /** The timestamp that it was written with, microseconds since 1970. */
  readonly writtenUs: number
}

/** A row that is still there after it was deleted is deleted again, as of later than it was written; so often, in case another writes it meanwhile. */
const removalsMax = 5

export interface Statement {
  readonly query: string
  readonly params: unknown[]
}

/** @param timestampUs of everything that is written */
export function openRowWriter(connection: Connection, client: Client, pace: Pace, timestampUs: number, signal: AbortSignal): RowWriter {
  const options: QueryOptions = { prepare: true, isIdempotent: true, logged: false, timestamp: timestampUs }
  let probing: Promise<void> | undefined

  /** Writes a row that nothing is wrong with. Where that is refused too, what is said of a message's row is not said of the message. */
  async function probe(): Promise<void> {
    try {
      await client.execute(`INSERT INTO ${connection.table(schemaTable.name)} (name, value) VALUES ('probe', 'a row')`, [], options)
    } catch (error) {
      if (meaningOf(error) !== 'data') throw error
      const { message } = error as Error
      throw new SinkError('systemic', `Cassandra refuses every row, whatever is in it: ${message}. Raise that limit of the nodes`, {
        cause: error,
      })
    }
  }

  /** By its key. Undefined where it is not there. */
  async function find([format, { params }]: PlacedRow): Promise<FoundRow | undefined> {
    const { rows } = await client.execute(rowStatements(connection.keyspace, format).find, params.slice(0, keyLength), { prepare: true })
    const [row] = rows
    return row === undefined ? undefined : { writtenUs: Number(row['written_us'] ?? timestampUs) }
  }

  async function findAll(rows: readonly PlacedRow[]): Promise<(FoundRow | undefined)[]> {
    const found = Array.from<unknown, FoundRow | undefined>(rows, () => undefined)
    await sendAll(rows.length, async at => void (found[at] = await find(rows[at]!)), pace, signal)
    return found
  }

  async function insert(tables: readonly EncodedTable[], { rejected }: Pick<EncodedBatch, 'rejected'>): Promise<readonly Rejection[]> {
    const requests = tables.flatMap(({ format, requests }) => without(requests, rejected).map(request => ({ format, request })))
    const refused = new Map<number, Rejection>()

    async function insertRow(format: string, row: EncodedRow): Promise<void> {
      // Its other rows would only have to be taken away again.
      if (refused.has(row.message)) return
      try {
        await client.execute(row.query, row.params, options)
      } catch (error) {
        if (meaningOf(error) !== 'data') throw error
        probing ??= probe()
        await probing
        // Stored when the nodes took more than they do now: what is durable is not for a dead letter, and not to be taken away.
        if ((await find([format, row])) !== undefined) return
        refused.set(row.message, rejectionOf(row, error as Error))
      }
    }

    async function insertRequest({ format, request }: { format: string; request: EncodedRequest }): Promise<void> {
      if (request.length === 1) return insertRow(format, request[0]!)
      try {
        await client.batch(request as EncodedRow[], options)
      } catch (error) {
        if (meaningOf(error) !== 'data') throw error
        // It does not say which row it is about.
        for (const row of request) await insertRow(format, row)
      }
    }

    await sendAll(requests.length, at => insertRequest(requests[at]!), pace, signal)
    return [...refused.values()]
  }

  /** Rows whose message is one of these. */
  function rowsOf(tables: readonly EncodedTable[], messages: { has(message: number): boolean }): PlacedRow[] {
    const rows: PlacedRow[] = []
    for (const { format, requests } of tables) {
      for (const request of requests) for (const row of request) if (messages.has(row.message)) rows.push([format, row])
    }
    return rows
  }

  return {
    insert,
    execute: statements =>
      sendAll(statements.length, at => client.execute(statements[at]!.query, statements[at]!.params, options), pace, signal),
    async remove(tables, messages) {
      let rows: readonly PlacedRow[] = rowsOf(tables, messages)
      let deletedUs: readonly number[] = rows.map(() => timestampUs)
      let lastUs = timestampUs
      for (let round = 0; round < removalsMax; round++) {
        const remove = ([format, { params }]: PlacedRow, timestamp: number) =>
          client.execute(rowStatements(connection.keyspace, format).remove, params.slice(0, keyLength), { ...options, timestamp })
        await sendAll(rows.length, at => remove(rows[at]!, deletedUs[at]!), pace, signal)
        const found = await findAll(rows)
        const there = found.flatMap((row, at) =>
          row === undefined ? [] : [{ row: rows[at]!, us: Math.max(row.writtenUs, deletedUs[at]!) + 1 }],
        )
        if (there.length === 0) return lastUs
        rows = there.map(({ row }) => row)
        deletedUs = there.map(({ us }) => us)
        lastUs = deletedUs.reduce((one, other) => Math.max(one, other), lastUs)
      }
      throw new SinkError(
        'transient',
        `${rows.length} rows of refused messages are there however late they are deleted: others write them too`,
      )
    },
    async missing(tables, messages) {
      const found = await findAll(rowsOf(tables, messages))
      return found.filter(row => row === undefined).length
    },
  }
}

function without(requests: readonly EncodedRequest[], rejected: ReadonlyMap<number, Rejection>): readonly EncodedRequest[] {
  if (rejected.size === 0) return requests
  return requests.map(request => request.filter(row => !rejected.has(row.message))).filter(request => request.length > 0)
}

function rejectionOf({ message, record }: EncodedRow, error: Error): Rejection {
  const { code } = error as { code?: unknown }
  const by = error.name === 'ResponseError' ? `Cassandra refused it (0x${Number(code).toString(16)})` : 'it cannot be encoded for Cassandra'
  return { message, record, rule: 'store-refused', reason: `${by}: ${error.message}` }
}
