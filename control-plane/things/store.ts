// Things in the database: rows, their encrypted keys, and the policies that their creator gets.

import { parseJsonText } from '../../config/http/json-body.ts'
import type { Database, SqlRow } from '../../config/postgres/database.ts'
import type { Metadata, NewEntity } from '../entity.ts'
import { newThingId, type ThingId, type UserId } from '../ids.ts'
import type { Page, PageRequest } from '../page.ts'
import type { PolicyStore } from '../policies/policy-store.ts'
import type { ThingKeys } from './keys.ts'

export interface Thing {
  readonly id: ThingId
  readonly name: string
  readonly key: string
  /** Absent where none was given. */
  readonly metadata?: Metadata
}

export interface ThingFilter {
  /** The whole name, as it is written. */
  readonly name?: string | undefined
  /** A part of the stored metadata. */
  readonly metadata?: Metadata | undefined
}

export interface Things {
  /** All or none; their creator owns them and gets read, write and delete on each (SPEC §5). In the order given. */
  create(owner: UserId, things: readonly NewEntity[]): Promise<Thing[]>
  find(thing: ThingId): Promise<Thing | undefined>
  exists(thing: ThingId): Promise<boolean>
  /** Those of one owner, in the order of creation. */
  list(owner: UserId, filter: ThingFilter, page: PageRequest): Promise<Page<Thing>>
}

interface Parts {
  readonly database: Database
  readonly policies: PolicyStore
  readonly keys: ThingKeys
}

const insertSql = `
  INSERT INTO control_plane.things (id, owner, name, metadata, key_ciphertext, key_lookup)
  SELECT id, $1, name, metadata, decode(ciphertext, 'hex'), decode(lookup, 'hex')
  FROM ROWS FROM (json_to_recordset($2::json) AS (id uuid, name text, metadata jsonb, ciphertext text, lookup text)) WITH ORDINALITY AS thing
  ORDER BY thing.ordinality`

const columns = 'id, name, metadata, key_ciphertext'

// One statement, so that the total and the page are of one moment; a page beyond the end still tells the total.
const listSql = `
  WITH matching AS NOT MATERIALIZED (
    SELECT ordinal, ${columns} FROM control_plane.things
    WHERE owner = $1 AND ($2::text IS NULL OR name = $2) AND ($3::jsonb IS NULL OR metadata @> $3)
  )
  SELECT counted.total, page.*
  FROM (SELECT count(*) AS total FROM matching) AS counted
  LEFT JOIN LATERAL (SELECT * FROM matching ORDER BY ordinal OFFSET $4 LIMIT $5) AS page ON true
  ORDER BY page.ordinal`

type ThingRow = SqlRow & { id: ThingId; name: string; metadata: string | null; key_ciphertext: Uint8Array }

export function openThings({ database, policies, keys }: Parts): Things {
  function toThing({ id, name, metadata, key_ciphertext }: ThingRow): Thing {
    const key = keys.decrypt(id, key_ciphertext)
    return metadata === null ? { id, name, key } : { id, name, key, metadata: parseJsonText(metadata) as Metadata }
  }

  return {
    async create(owner, things) {
      const created: Thing[] = []
      const rows = things.map(({ name, metadata }) => {
        const id = newThingId()
        const { key, ciphertext, lookup } = keys.issue(id)
        created.push({ id, name, key, ...(metadata === undefined ? {} : { metadata }) })
        return { id, name, metadata, ciphertext: ciphertext.toString('hex'), lookup: lookup.toString('hex') }
      })
      const granted = created.flatMap(({ id }) =>
        (['read', 'write', 'delete'] as const).map(relation => ({ subject: owner, relation, object: id })),
      )
      await database.transaction(async transaction => {
        await transaction.query(insertSql, [owner, JSON.stringify(rows)])
        await policies.add(granted, transaction)
      })
      return created
    },

    async find(thing) {
      const [row] = await database.query<ThingRow>(`SELECT ${columns} FROM control_plane.things WHERE id = $1`, [thing])
      return row === undefined ? undefined : toThing(row)
    },

    async exists(thing) {
      const rows = await database.query('SELECT 1 FROM control_plane.things WHERE id = $1', [thing])
      return rows.length > 0
    },

    async list(owner, { name, metadata }, { offset, limit }) {
      const filter = metadata === undefined ? null : JSON.stringify(metadata)
      const rows = await database.query<ThingRow & { total: bigint }>(listSql, [owner, name ?? null, filter, offset, limit])
      const items = rows.filter(row => row.id !== null).map(toThing)
      return { total: Number(rows[0]?.total ?? 0), items }
    },
  }
}
