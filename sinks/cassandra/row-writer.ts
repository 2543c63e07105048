// Sends the requests of one attempt to write a batch, and finds the rows that the server refuses.
//
// All statements of an attempt have one timestamp, so that it does not matter in which order they reach which node, or what its clock says: the rows that
// an attempt takes away are gone, since of a row and a tombstone of the same timestamp the tombstone counts.

import type { Client, QueryOptions } from 'cassandra-driver'
import type { Rejection } from '../sink.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch, EncodedRequest, EncodedRow, EncodedTable } from './encoded-batch.ts'
import { meaningOf } from './errors.ts'
import { type Pace, sendAll } from './in-flight.ts'
import { keyLength, rowStatements } from './statements.ts'

export interface RowWriter {
  /** The requests of these tables without the rows of messages that are rejected. Returns the rows that the server refuses; the others are durable. */
  insert(tables: readonly EncodedTable[], encoded: EncodedBatch): Promise<readonly Rejection[]>
  /** Statements that stand for themselves, each with its values. */
  execute(statements: readonly Statement[]): Promise<void>
  /** Takes away the rows of these messages. */
  remove(tables: readonly EncodedTable[], messages: { has(message: number): boolean }): Promise<void>
  /** How many rows of these messages are not in the store. */
  missing(tables: readonly EncodedTable[], messages: { has(message: number): boolean }): Promise<number>
}

export interface Statement {
  readonly query: string
  readonly params: unknown[]
}

/** @param timestampUs of everything that is written */
export function openRowWriter(connection: Connection, client: Client, pace: Pace, timestampUs: number, signal: AbortSignal): RowWriter {
  const options: QueryOptions = { prepare: true, isIdempotent: true, logged: false, timestamp: timestampUs }

  async function insert(tables: readonly EncodedTable[], { rejected }: EncodedBatch): Promise<readonly Rejection[]> {
    const requests = tables.flatMap(({ requests }) => without(requests, rejected))
    const refused = new Map<number, Rejection>()

    async function insertRow(row: EncodedRow): Promise<void> {
      // Its other rows would only have to be taken away again.
      if (refused.has(row.message)) return
      try {
        await client.execute(row.query, row.params, options)
      } catch (error) {
        if (meaningOf(error) !== 'data') throw error
        refused.set(row.message, rejectionOf(row, error as Error))
      }
    }

    async function insertRequest(request: EncodedRequest): Promise<void> {
      if (request.length === 1) return insertRow(request[0]!)
      try {
        await client.batch(request as EncodedRow[], options)
      } catch (error) {
        if (meaningOf(error) !== 'data') throw error
        // It does not say which row it is about.
        for (const row of request) await insertRow(row)
      }
    }

    await sendAll(requests.length, at => insertRequest(requests[at]!), pace, signal)
    return [...refused.values()]
  }

  /** Rows whose message is one of these. */
  function rowsOf(tables: readonly EncodedTable[], messages: { has(message: number): boolean }): [string, EncodedRow][] {
    const rows: [string, EncodedRow][] = []
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
      const rows = rowsOf(tables, messages)
      const remove = ([format, { params }]: [string, EncodedRow]) =>
        client.execute(rowStatements(connection.keyspace, format).remove, params.slice(0, keyLength), options)
      await sendAll(rows.length, at => remove(rows[at]!), pace, signal)
    },
    async missing(tables, messages) {
      const rows = rowsOf(tables, messages)
      let missing = 0
      const find = async ([format, { params }]: [string, EncodedRow]) => {
        const { rows } = await client.execute(rowStatements(connection.keyspace, format).find, params.slice(0, keyLength), {
          prepare: true,
        })
        if (rows.length === 0) missing++
      }
      await sendAll(rows.length, at => find(rows[at]!), pace, signal)
      return missing
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
