// Things in the database: rows, their encrypted keys, and the policies that their creator gets.
//
// Longer than most files: every statement on things is here.

import type { Database, SqlRow, SqlValue } from '../../database/database.ts'
import { parseJsonText } from '../../http/requests/json-body.ts'
import type { Certificates } from '../certificates/store.ts'
import { type EntityFilter, filteredRows, foldedName, type Metadata, type NewEntity } from '../entity.ts'
import { type ChannelId, isId, newThingId, type ThingId, toThingId, type UserId } from '../ids.ts'
import { isDelivered, namedBy, type Policy, type PolicyStore, type Relation } from '../policies/policy-store.ts'
import { type Page, type PageRequest, pageSql, type Searcher, toPage } from '../requests/page.ts'
import { inUse, type RequestedId, refuseUsed } from '../requests/requested-ids.ts'
import { demandCapacity } from '../users/bounds.ts'
import { lockUsersSql } from '../users/store.ts'
import { outcomeOf, type Unchanged, type Versions, type WriteOutcome } from '../versions.ts'
import type { Actor, Caller, Write, Writes } from '../writes.ts'
import type { ThingKeys } from './keys.ts'

export interface Thing {
  readonly id: ThingId
  readonly name: string
  readonly key: string
  /** Absent if none was given. */
  readonly metadata?: Metadata
}

export interface ThingFilter extends EntityFilter {
  /** Whether to include things of others that the user may read. */
  readonly shared?: boolean | undefined
  /** Of a device of the user: only its things. */
  readonly externalId?: string | undefined
}

export interface Things {
  /**
   * Creates all or none, and returns them in the order given. The creator owns them and gets read, write and delete on each (SPEC §5).
   *
   * @param requested ids and keys, at the index of their thing; the others are generated
   * @throws HttpError `conflict` for an id or key that is in use, and for more things than the user may own
   */
  create(by: Caller, things: readonly NewEntity[], requested?: readonly RequestedId[]): Promise<Thing[]>
  find(thing: ThingId): Promise<{ readonly thing: Thing; readonly version: number } | undefined>
  /** The things that exist among these, in the order given. */
  findAll(things: readonly ThingId[]): Promise<Thing[]>
  exists(thing: ThingId): Promise<boolean>
  ownerOf(thing: ThingId): Promise<UserId | undefined>
  /** The things of the one who searches. */
  list(by: Searcher, filter: ThingFilter, page: PageRequest): Promise<Page<Thing>>
  /** The things of one owner that are connected to the channel, or that are not connected to it. */
  listConnected(owner: UserId, channel: ChannelId, connected: boolean, page: PageRequest): Promise<Page<Thing>>
  /** Gives the users these relations, all or none. @returns false, with nothing given, if the thing or one of the users is absent */
  share(by: Actor, thing: ThingId, users: readonly UserId[], relations: readonly Relation[]): Promise<boolean>
  /** @param options rotatesKey: also replaces the thing's key, as `rotateKey` without a grace period */
  unshare(
    by: Actor,
    thing: ThingId,
    users: readonly UserId[],
    relations: readonly Relation[],
    options?: { readonly rotatesKey?: boolean | undefined },
  ): Promise<void>
  /** Replaces name and metadata. */
  update(by: Actor, thing: ThingId, to: NewEntity, versions: Versions): Promise<WriteOutcome>
  /** Deletes the thing, its connections and every policy on it; when it resolves, its key is refused and its certificates are revoked. */
  remove(by: Actor, thing: ThingId, versions: Versions): Promise<WriteOutcome>
  /**
   * Replaces the thing's key. The old one stays valid for `graceSeconds`; with 0 it is refused when this resolves. An older previous key ends
   * immediately.
   *
   * @param requestedKey the new key; otherwise one is generated
   * @throws HttpError `conflict` for a key that is in use
   */
  rotateKey(
    by: Actor,
    thing: ThingId,
    graceSeconds: number,
    versions: Versions,
    requestedKey?: string,
  ): Promise<{ readonly key: string; readonly version: number } | Unchanged>
}

interface Parts {
  readonly database: Database
  readonly policies: Pick<PolicyStore, 'objects'>
  readonly writes: Writes
  readonly thingKeys: ThingKeys
  readonly certificates: Pick<Certificates, 'revoke'>
}

const insertSql = `
  INSERT INTO control_plane.things (id, owner, name, name_folded, metadata, key_ciphertext, key_lookup)
  SELECT id, $1, name, name_folded, metadata, decode(ciphertext, 'hex'), decode(lookup, 'hex')
  FROM ROWS FROM (
    json_to_recordset($2::json) AS (id uuid, name text, name_folded text, metadata jsonb, ciphertext text, lookup text)
  ) WITH ORDINALITY AS thing
  ORDER BY thing.ordinality`

/**
 * Whether an id or key is in use where no unique index says so: policies name things and groups by id, a previous key is valid until it expires, and
 * another thing may have the key under another master key. Runs after the things are written, so that it has waited for a concurrent rotation.
 */
const inUseSql = `
  SELECT FROM control_plane.groups WHERE id = ANY($1::uuid[])
  UNION ALL SELECT FROM control_plane.users WHERE id = ANY($1::uuid[])
  UNION ALL SELECT FROM control_plane.things
  WHERE previous_key_lookup = ANY(ARRAY(SELECT decode(lookup, 'hex') FROM unnest($2::text[]) AS lookup)) AND previous_key_ends_at > now()
    AND id <> ALL($1::uuid[])
  UNION ALL SELECT FROM control_plane.things
  WHERE key_lookup = ANY(ARRAY(SELECT decode(lookup, 'hex') FROM unnest($2::text[]) AS lookup)) AND id <> ALL($1::uuid[])`
/** Requests with given keys run one at a time while there are two master keys: each may use another master key, and no unique index covers both. */
const lockRequestedKeysSql = `SELECT pg_advisory_xact_lock(hashtextextended('given thing keys', 0))::text`

const columns = 'things.id, things.name, things.metadata, things.key_ciphertext'

const listSql = (whose: string) => `SELECT ordinal, ${columns} FROM control_plane.things WHERE ${whose} AND ${isDelivered('things.id')}`
const ownSql = listSql('owner = $1')
const readableSql = listSql('(owner = $1 OR id = ANY($2::uuid[]))')
/** Those of the mapping and of the configuration that the user, $1, has for an external id. */
const deviceSql = (externalId: string): string => ` AND id = ANY (ARRAY(
  SELECT unnest(things) FROM control_plane.mappings WHERE owner = $1 AND external_id = ${externalId}
  UNION ALL SELECT thing FROM control_plane.bootstrap_configs WHERE owner = $1 AND external_id = ${externalId}))`

const isConnectedSql = 'SELECT FROM control_plane.connections WHERE connections.thing = things.id AND connections.channel = $2'
const connectedSql = `
  SELECT ordinal, ${columns} FROM control_plane.things JOIN control_plane.connections ON connections.thing = things.id
  WHERE owner = $1 AND connections.channel = $2`
const unconnectedSql = `SELECT ordinal, ${columns} FROM control_plane.things WHERE owner = $1 AND NOT EXISTS (${isConnectedSql}) AND ${isDelivered('things.id')}`

const findSql = `SELECT ${columns}, version FROM control_plane.things WHERE id = $1 AND ${isDelivered('things.id')}`

const updateSql = `
  UPDATE control_plane.things SET name = $2, name_folded = $3, metadata = $4::jsonb, version = version + 1
  WHERE id = $1 AND ($5::int4[] IS NULL OR version = ANY($5))
  RETURNING version`

const rotateSql = `
  UPDATE control_plane.things SET
    previous_key_lookup = CASE WHEN $4::int4 > 0 THEN key_lookup END,
    previous_key_id = CASE WHEN $4::int4 > 0 THEN substring(key_ciphertext FOR 4) END,
    previous_key_ends_at = CASE WHEN $4::int4 > 0 THEN now() + make_interval(secs => $4::int4) END,
    key_ciphertext = $2, key_lookup = $3, version = version + 1
  WHERE id = $1 AND ($5::int4[] IS NULL OR version = ANY($5))
  RETURNING version`

const lockRemovedSql = `
  SELECT version FROM control_plane.things
  WHERE id = $1 AND ($2::int4[] IS NULL OR version = ANY($2)) AND ${isDelivered('things.id')} FOR UPDATE`
/** Prevents a deletion before the policies are committed, and makes changes of its sharing run one at a time. */
const lockSharedSql = `SELECT FROM control_plane.things WHERE id = $1 AND ${isDelivered('things.id')} FOR NO KEY UPDATE`

type ThingRow = SqlRow & { id: ThingId; name: string; metadata: string | null; key_ciphertext: Uint8Array }
type VersionRow = SqlRow & { version: number }
type ListedRow = ThingRow & { total: bigint }

export function openThings({ database, policies, writes, thingKeys, certificates }: Parts): Things {
  function toThing({ id, name, metadata, key_ciphertext }: ThingRow): Thing {
    const key = thingKeys.decrypt(id, key_ciphertext)
    return metadata === null ? { id, name, key } : { id, name, key, metadata: parseJsonText(metadata) as Metadata }
  }

  /** @throws HttpError `conflict` if an id, or one of the keys under any master key, belongs to another thing */
  async function refuseInUse(write: Write, ids: readonly ThingId[], requestedKeys: readonly string[]): Promise<void> {
    if (thingKeys.masterKeyIds.length > 1) await write.query(lockRequestedKeysSql)
    const lookups = requestedKeys.flatMap(key => thingKeys.lookups(key)).map(lookup => lookup.toString('hex'))
    if ((await write.query(inUseSql, [ids, lookups])).length > 0) throw inUse()
  }

  async function exists(thing: ThingId): Promise<boolean> {
    const sql = `SELECT 1 FROM control_plane.things WHERE id = $1 AND ${isDelivered('things.id')}`
    return (await database.query(sql, [thing])).length > 0
  }

  async function writeThing(
    by: Actor,
    thing: ThingId,
    action: 'thing.update' | 'thing.delete' | 'thing.rotate-key',
    work: (write: Write) => Promise<VersionRow[]>,
  ): Promise<WriteOutcome> {
    const [row] = await writes(by, async write => {
      const rows = await work(write)
      if (rows.length === 0) return rows
      write.note(action, [thing])
      // Also if the old key has a grace period: a cached grant has no expiry, but the key has one now.
      if (action !== 'thing.update') write.ends({ kind: 'thing', thing })
      return rows
    })
    return outcomeOf(row, () => exists(thing))
  }

  const rotateKey: Things['rotateKey'] = async (by, thing, graceSeconds, versions, requestedKey) => {
    const { key, ciphertext, lookup } = thingKeys.issue(thing, requestedKey)
    const values = [thing, ciphertext, lookup, graceSeconds, versions ?? null]
    const work = async (write: Write): Promise<VersionRow[]> => {
      // Checked before the rotation, so that the thing's own key counts as in use too.
      if (requestedKey !== undefined) await refuseInUse(write, [], [requestedKey])
      const rotated = await write.query<VersionRow>(rotateSql, values)
      if (requestedKey !== undefined) await refuseInUse(write, [thing], [requestedKey])
      return rotated
    }
    const outcome = await writeThing(by, thing, 'thing.rotate-key', work).catch(refuseUsed)
    return typeof outcome === 'string' ? outcome : { key, version: outcome.version }
  }

  return {
    async create(by, things, requested = []) {
      const created: Thing[] = []
      const rows = things.map(({ name, metadata }, index) => {
        const { id: requestedId, key: requestedKey } = requested[index] ?? {}
        const id = requestedId === undefined ? newThingId() : toThingId(requestedId)
        const { key, ciphertext, lookup } = thingKeys.issue(id, requestedKey)
        created.push({ id, name, key, ...(metadata === undefined ? {} : { metadata }) })
        const hex = { ciphertext: ciphertext.toString('hex'), lookup: lookup.toString('hex') }
        return { id, name, name_folded: foldedName(name), metadata, ...hex }
      })
      const granted = created.flatMap(({ id }) => thingPolicies(id, [by.user], ['read', 'write', 'delete']))
      const isMade = writes(by, async write => {
        await demandCapacity(write, by.user, 'things', rows.length)
        await write.query(insertSql, [by.user, JSON.stringify(rows)])
        const createdKeys = created.map(({ key }) => key)
        if (requested.length > 0) await refuseInUse(write, idsOf(created), createdKeys)
        await write.policies.add(granted, idsOf(created))
        write.note('thing.create', idsOf(created))
      })
      await isMade.catch(refuseUsed)
      return created
    },

    async find(thing) {
      const [row] = await database.query<ThingRow & VersionRow>(findSql, [thing])
      return row === undefined ? undefined : { thing: toThing(row), version: row.version }
    },

    async findAll(things) {
      const sql = `
        SELECT ${columns} FROM control_plane.things WHERE id = ANY($1::uuid[]) AND ${isDelivered('things.id')}
        ORDER BY array_position($1::uuid[], id)`
      return (await database.query<ThingRow>(sql, [things])).map(toThing)
    },

    exists,

    async ownerOf(thing) {
      const [row] = await database.query<{ owner: UserId }>(
        `SELECT owner FROM control_plane.things WHERE id = $1 AND ${isDelivered('things.id')}`,
        [thing],
      )
      return row?.owner
    },

    async list(by, { shared = false, externalId, ...filter }, page) {
      const { user, signal } = by
      const values: SqlValue[] = shared ? [user, (await policies.objects(user, 'read', signal)).filter(isId)] : [user]
      let sql = shared ? readableSql : ownSql
      if (externalId !== undefined) sql += deviceSql(`$${values.push(externalId)}`)
      return toPage(await filteredRows<ThingRow>(database, [sql, values], filter, page, by), toThing)
    },

    async listConnected(owner, channel, connected, page) {
      const sql = pageSql(connected ? connectedSql : unconnectedSql, 4, page)
      return toPage(await database.query<ListedRow>(sql, [owner, channel, page.offset, page.limit]), toThing)
    },

    async share(by, thing, users, relations) {
      const set = [...new Set(users)]
      return writes(by, async write => {
        if ((await write.query(lockSharedSql, [thing])).length === 0) return false
        if ((await write.query(lockUsersSql, [set])).length < set.length) return false
        const added = await write.policies.add(thingPolicies(thing, set, relations))
        if (added.length > 0) write.note('thing.share', ...namedBy(thing, added))
        return true
      })
    },

    async unshare(by, thing, users, relations, { rotatesKey = false } = {}) {
      await writes(by, async write => {
        const isThere = (await write.query(lockSharedSql, [thing])).length > 0
        const removed = await write.policies.remove(thingPolicies(thing, users, relations))
        if (removed.length > 0) write.note('thing.unshare', ...namedBy(thing, removed))
        if (isThere && rotatesKey) await rotateKey(write, thing, 0, undefined)
      })
    },

    update(by, thing, { name, metadata }, versions) {
      const values = [thing, name, foldedName(name), metadata === undefined ? null : JSON.stringify(metadata), versions ?? null]
      return writeThing(by, thing, 'thing.update', write => write.query(updateSql, values))
    },

    remove: (by, thing, versions) =>
      writeThing(by, thing, 'thing.delete', async write => {
        // The lock comes first: a request that shares the thing, or issues a certificate for it, waits and then finds it gone.
        const rows = await write.query<VersionRow>(lockRemovedSql, [thing, versions ?? null])
        if (rows.length === 0) return []
        await certificates.revoke(write, thing)
        await write.query('DELETE FROM control_plane.things WHERE id = $1', [thing])
        await write.policies.removeAll({ object: thing })
        return rows
      }),

    rotateKey,
  }
}

const idsOf = (things: readonly Thing[]): ThingId[] => things.map(({ id }) => id)

function thingPolicies(object: ThingId, users: readonly UserId[], relations: readonly Relation[]): Policy[] {
  return users.flatMap(subject => relations.map(relation => ({ subject, relation, object })))
}
