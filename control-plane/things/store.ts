// Things in the database: rows, their encrypted keys, and the policies that their creator gets.

import { parseJsonText } from '../../config/http/json-body.ts'
import type { Database, SqlRow, Transaction } from '../../config/postgres/database.ts'
import type { Changes } from '../changes.ts'
import { type EntityFilter, filterSql, foldedName, type Metadata, type NewEntity } from '../entity.ts'
import { type ChannelId, newThingId, type ThingId, type UserId } from '../ids.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../page.ts'
import type { Policy, PolicyStore, Relation } from '../policies/policy-store.ts'
import { lockUsersSql } from '../users/store.ts'
import type { ChangeOutcome, Unchanged, Versions } from '../versions.ts'
import type { ThingKeys } from './keys.ts'

export interface Thing {
  readonly id: ThingId
  readonly name: string
  readonly key: string
  /** Absent where none was given. */
  readonly metadata?: Metadata
}

export interface Things {
  /** All or none; their creator owns them and gets read, write and delete on each (SPEC §5). In the order given. */
  create(owner: UserId, things: readonly NewEntity[]): Promise<Thing[]>
  find(thing: ThingId): Promise<{ readonly thing: Thing; readonly version: number } | undefined>
  /** Those of these that exist, in the order given. */
  findAll(things: readonly ThingId[]): Promise<Thing[]>
  exists(thing: ThingId): Promise<boolean>
  ownerOf(thing: ThingId): Promise<UserId | undefined>
  /** Those of one owner. */
  list(owner: UserId, filter: EntityFilter, page: PageRequest): Promise<Page<Thing>>
  /** Those of one owner that are connected to the channel, or that are not. */
  listConnected(owner: UserId, channel: ChannelId, connected: boolean, page: PageRequest): Promise<Page<Thing>>
  /** Gives the users these relations, all or none. @returns false, with nothing given, where the thing or one of the users is absent */
  share(thing: ThingId, users: readonly UserId[], relations: readonly Relation[]): Promise<boolean>
  unshare(thing: ThingId, users: readonly UserId[], relations: readonly Relation[]): Promise<void>
  /** Name and metadata become these. */
  update(thing: ThingId, to: NewEntity, versions: Versions): Promise<ChangeOutcome>
  /** The thing, its connections and every policy on it; its key opens nothing any more when it resolves. */
  remove(thing: ThingId, versions: Versions): Promise<ChangeOutcome>
  /**
   * A new key in place of the one that it has. The old one is good for `graceSeconds` more, and with 0 it opens nothing any more when
   * this resolves; one before it ends at once.
   */
  rotateKey(
    thing: ThingId,
    graceSeconds: number,
    versions: Versions,
  ): Promise<{ readonly key: string; readonly version: number } | Unchanged>
}

interface Parts {
  readonly database: Database
  readonly policies: PolicyStore
  readonly keys: ThingKeys
  readonly changes: Changes
}

const insertSql = `
  INSERT INTO control_plane.things (id, owner, name, name_folded, metadata, key_ciphertext, key_lookup)
  SELECT id, $1, name, name_folded, metadata, decode(ciphertext, 'hex'), decode(lookup, 'hex')
  FROM ROWS FROM (
    json_to_recordset($2::json) AS (id uuid, name text, name_folded text, metadata jsonb, ciphertext text, lookup text)
  ) WITH ORDINALITY AS thing
  ORDER BY thing.ordinality`

const columns = 'things.id, things.name, things.metadata, things.key_ciphertext'

const ownSql = `SELECT ordinal, ${columns} FROM control_plane.things WHERE owner = $1`

const isConnectedSql = 'SELECT FROM control_plane.connections WHERE connections.thing = things.id AND connections.channel = $2'
const connectedSql = `
  SELECT ordinal, ${columns} FROM control_plane.things JOIN control_plane.connections ON connections.thing = things.id
  WHERE owner = $1 AND connections.channel = $2`
const unconnectedSql = `SELECT ordinal, ${columns} FROM control_plane.things WHERE owner = $1 AND NOT EXISTS (${isConnectedSql})`

const updateSql = `
  UPDATE control_plane.things SET name = $2, name_folded = $3, metadata = $4::jsonb, version = version + 1
  WHERE id = $1 AND ($5::int4[] IS NULL OR version = ANY($5))
  RETURNING version`

const rotateSql = `
  UPDATE control_plane.things SET
    previous_key_lookup = CASE WHEN $4::int4 > 0 THEN key_lookup END,
    previous_key_ends_at = CASE WHEN $4::int4 > 0 THEN now() + make_interval(secs => $4::int4) END,
    key_ciphertext = $2, key_lookup = $3, version = version + 1
  WHERE id = $1 AND ($5::int4[] IS NULL OR version = ANY($5))
  RETURNING version`

type ThingRow = SqlRow & { id: ThingId; name: string; metadata: string | null; key_ciphertext: Uint8Array }
type ListedRow = ThingRow & { total: bigint }

export function openThings({ database, policies, keys, changes }: Parts): Things {
  function toThing({ id, name, metadata, key_ciphertext }: ThingRow): Thing {
    const key = keys.decrypt(id, key_ciphertext)
    return metadata === null ? { id, name, key } : { id, name, key, metadata: parseJsonText(metadata) as Metadata }
  }

  async function exists(thing: ThingId): Promise<boolean> {
    return (await database.query('SELECT 1 FROM control_plane.things WHERE id = $1', [thing])).length > 0
  }

  /** A change of one row, of which those who remember grants hear where it may end one. */
  async function change(
    thing: ThingId,
    work: (transaction: Transaction) => Promise<SqlRow[]>,
    endsAccess: boolean,
  ): Promise<ChangeOutcome> {
    const ended = { kind: 'thing', thing } as const
    const [row] = await database.transaction(async transaction => {
      const rows = await work(transaction)
      if (rows.length > 0 && endsAccess) await changes.announce(ended, transaction)
      return rows
    })
    if (row === undefined) return (await exists(thing)) ? 'changed-since' : 'absent'
    if (endsAccess) changes.emit(ended)
    return { version: row['version'] as number }
  }

  return {
    async create(owner, things) {
      const created: Thing[] = []
      const rows = things.map(({ name, metadata }) => {
        const id = newThingId()
        const { key, ciphertext, lookup } = keys.issue(id)
        created.push({ id, name, key, ...(metadata === undefined ? {} : { metadata }) })
        const hex = { ciphertext: ciphertext.toString('hex'), lookup: lookup.toString('hex') }
        return { id, name, name_folded: foldedName(name), metadata, ...hex }
      })
      const granted = created.flatMap(({ id }) => policiesOf(id, [owner], ['read', 'write', 'delete']))
      await database.transaction(async transaction => {
        await transaction.query(insertSql, [owner, JSON.stringify(rows)])
        await policies.add(granted, transaction)
      })
      return created
    },

    async find(thing) {
      type FoundRow = ThingRow & { version: number }
      const [row] = await database.query<FoundRow>(`SELECT ${columns}, version FROM control_plane.things WHERE id = $1`, [thing])
      return row === undefined ? undefined : { thing: toThing(row), version: row.version }
    },

    async findAll(things) {
      const sql = `SELECT ${columns} FROM control_plane.things WHERE id = ANY($1::uuid[]) ORDER BY array_position($1::uuid[], id)`
      return (await database.query<ThingRow>(sql, [things])).map(toThing)
    },

    exists,

    async ownerOf(thing) {
      const [row] = await database.query<{ owner: UserId }>('SELECT owner FROM control_plane.things WHERE id = $1', [thing])
      return row?.owner
    },

    async list(owner, filter, page) {
      const [filtered, wanted] = filterSql(filter, 1)
      const values = [owner, ...wanted, page.offset, page.limit]
      return toPage(await database.query<ListedRow>(pageSql(ownSql + filtered, values.length, page), values), toThing)
    },

    async listConnected(owner, channel, connected, page) {
      const sql = pageSql(connected ? connectedSql : unconnectedSql, 4, page)
      return toPage(await database.query<ListedRow>(sql, [owner, channel, page.offset, page.limit]), toThing)
    },

    async share(thing, users, relations) {
      const set = [...new Set(users)]
      return database.transaction(async transaction => {
        // Neither is deleted before the policies are committed.
        if ((await transaction.query('SELECT FROM control_plane.things WHERE id = $1 FOR KEY SHARE', [thing])).length === 0) return false
        if ((await transaction.query(lockUsersSql, [set])).length < set.length) return false
        await policies.add(policiesOf(thing, set, relations), transaction)
        return true
      })
    },

    async unshare(thing, users, relations) {
      await database.transaction(transaction => policies.remove(policiesOf(thing, users, relations), transaction))
    },

    update(thing, { name, metadata }, versions) {
      const values = [thing, name, foldedName(name), metadata === undefined ? null : JSON.stringify(metadata), versions ?? null]
      return change(thing, transaction => transaction.query(updateSql, values), false)
    },

    remove(thing, versions) {
      const work = async (transaction: Transaction): Promise<SqlRow[]> => {
        // The lock comes first: who shares the thing waits, and then finds it gone.
        const lockSql = `SELECT version FROM control_plane.things WHERE id = $1 AND ($2::int4[] IS NULL OR version = ANY($2)) FOR UPDATE`
        const rows = await transaction.query(lockSql, [thing, versions ?? null])
        if (rows.length === 0) return []
        await transaction.query('DELETE FROM control_plane.things WHERE id = $1', [thing])
        await policies.removeAll({ object: thing }, transaction)
        return rows
      }
      return change(thing, work, true)
    },

    async rotateKey(thing, graceSeconds, versions) {
      const { key, ciphertext, lookup } = keys.issue(thing)
      const values = [thing, ciphertext, lookup, graceSeconds, versions ?? null]
      // Also with a time of grace: a grant that is remembered has no end, and the old key has one now.
      const outcome = await change(thing, transaction => transaction.query(rotateSql, values), true)
      return typeof outcome === 'string' ? outcome : { key, version: outcome.version }
    },
  }
}

function policiesOf(object: ThingId, users: readonly UserId[], relations: readonly Relation[]): Policy[] {
  return users.flatMap(subject => relations.map(relation => ({ subject, relation, object })))
}
