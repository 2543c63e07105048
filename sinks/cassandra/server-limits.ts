// What the nodes say about the sizes that they take, so that what is larger is refused before anything of its message is sent.

import type { Connection } from './connection.ts'
import { meaningOf } from './errors.ts'

const units: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }

/**
 * The bytes that a row may have for certain no more than: its mutation has some more. Of the node that is asked; nodes that differ refuse by themselves.
 *
 * @returns infinity where a node does not say (before Cassandra 4.1, or to a role that may not read it)
 */
export async function rowBytesMax(connection: Connection): Promise<number> {
  const sql = `SELECT name, value FROM system_views.settings WHERE name IN ('max_mutation_size', 'native_transport_max_frame_size')`
  try {
    const rows = await connection.query(sql, [], { consistency: 1 })
    return rows.reduce((least, { value }) => Math.min(least, bytesOf(String(value))), Number.POSITIVE_INFINITY)
  } catch (error) {
    if (meaningOf(error) === 'transient') throw error
    return Number.POSITIVE_INFINITY
  }
}

/** Of `8192KiB`; infinity for what is written otherwise. */
export function bytesOf(size: string): number {
  const [, digits = '', unit = ''] = /^(\d+)(B|KiB|MiB|GiB)$/.exec(size) ?? []
  return digits === '' ? Number.POSITIVE_INFINITY : Number(digits) * units[unit]!
}
