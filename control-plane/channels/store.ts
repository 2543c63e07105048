// Channels in the database.

import type { Database, SqlRow, SqlValue } from '../../database/database.ts'
import { parseJsonText } from '../../http/requests/json-body.ts'
import { type EntityFilter, filteredRows, foldedName, type Metadata, type NewEntity } from '../entity.ts'
import { type ChannelId, newChannelId, type ThingId, toChannelId, type UserId } from '../ids.ts'
import { type Page, type PageRequest, pageSql, type Searcher, toPage } from '../requests/page.ts'
import { inUse, type RequestedId, refuseUsed } from '../requests/requested-ids.ts'
import { demandCapacity } from '../users/bounds.ts'
import { outcomeOf, type Versions, type WriteOutcome } from '../versions.ts'
import type { Caller, Writes } from '../writes.ts'

export interface Channel {
  readonly id: ChannelId
  readonly name: string
  /** Absent if none was given. */
  readonly metadata?: Metadata
}

export interface ChannelFilter extends EntityFilter {
  /** Only these. */
  readonly only?: readonly ChannelId[] | undefined
}

/** Another owner's channel is `absent` here. */
export interface Channels {
  /**
   * Creates all or none, and returns them in the order given.
   *
   * @param requested ids, at the index of their channel; the others are generated
   * @throws HttpError `conflict` for an id that is in use, or was that of another user's channel, and for more than the user may own
   */
  create(by: Caller, channels: readonly NewEntity[], requested?: readonly RequestedId[]): Promise<Channel[]>
  find(owner: UserId, channel: ChannelId): Promise<{ readonly channel: Channel; readonly version: number } | undefined>
  /** For any owner. */
  exists(channel: ChannelId): Promise<boolean>
  isOwner(user: UserId, channel: ChannelId): Promise<boolean>
  /** The channels of the one who searches. */
  list(by: Searcher, filter: ChannelFilter, page: PageRequest): Promise<Page<Channel>>
  /** The channels of one owner that the thing is connected to, or that it is not connected to. */
  listConnected(owner: UserId, thing: ThingId, connected: boolean, page: PageRequest): Promise<Page<Channel>>
  /** Replaces name and metadata. */
  update(by: Caller, channel: ChannelId, to: NewEntity, versions: Versions): Promise<WriteOutcome>
  /** Deletes the channel and its connections; when it resolves, publishing to it and reading it are refused. Its messages stay in their store. */
  remove(by: Caller, channel: ChannelId, versions: Versions): Promise<WriteOutcome>
}

const insertSql = `
  INSERT INTO control_plane.channels (id, owner, name, name_folded, metadata)
  SELECT id, $1, name, name_folded, metadata
  FROM ROWS FROM (json_to_recordset($2::json) AS (id uuid, name text, name_folded text, metadata jsonb)) WITH ORDINALITY AS channel
  ORDER BY channel.ordinality`

const columns = 'channels.id, channels.name, channels.metadata'

const ownSql = `SELECT ordinal, ${columns} FROM control_plane.channels WHERE owner = $1`

const connectedSql = `
  SELECT ordinal, ${columns} FROM control_plane.channels JOIN control_plane.connections ON connections.channel = channels.id
  WHERE owner = $1 AND connections.thing = $2`
const unconnectedSql = `
  SELECT ordinal, ${columns} FROM control_plane.channels
  WHERE owner = $1 AND NOT EXISTS (SELECT FROM control_plane.connections WHERE connections.channel = channels.id AND connections.thing = $2)`

const updateSql = `
  UPDATE control_plane.channels SET name = $4, name_folded = $5, metadata = $6::jsonb, version = version + 1
  WHERE owner = $1 AND id = $2 AND ($3::int4[] IS NULL OR version = ANY($3))
  RETURNING version`

const removeSql = `
  WITH removed AS (
    DELETE FROM control_plane.channels
    WHERE owner = $1 AND id = $2 AND ($3::int4[] IS NULL OR version = ANY($3))
    RETURNING id, owner, version
  ), kept AS (
    INSERT INTO control_plane.deleted_channels (id, owner) SELECT id, owner FROM removed ON CONFLICT DO NOTHING
  )
  SELECT version FROM removed`

/** Ids of deleted channels are not given to another user, who could read the old messages. */
const othersDeletedSql = 'SELECT FROM control_plane.deleted_channels WHERE id = ANY($1::uuid[]) AND owner <> $2'

/** In SQL: the channels of an array of ids that exist and belong to the owner, in the order of the array, as JSON text for `parseChannels`. */
export const channelsSql = (ids: string, owner: string): string => `(
  SELECT coalesce(json_agg(json_build_object('id', channels.id, 'name', channels.name, 'metadata', channels.metadata) ORDER BY ordinality), '[]')::text
  FROM unnest(${ids}) WITH ORDINALITY AS listed (channel, ordinality)
  JOIN control_plane.channels ON channels.id = listed.channel AND channels.owner = ${owner})`

export function parseChannels(json: string): Channel[] {
  const channels = parseJsonText(json) as { id: ChannelId; name: string; metadata: Metadata | null }[]
  return channels.map(({ metadata, ...channel }) => (metadata === null ? channel : { ...channel, metadata }))
}

type ChannelRow = SqlRow & { id: ChannelId; name: string; metadata: string | null }
type ListedRow = ChannelRow & { total: bigint }
type VersionRow = SqlRow & { version: number }

export function openChannels(database: Database, writes: Writes): Channels {
  const findSql = `SELECT ${columns}, version FROM control_plane.channels WHERE owner = $1 AND id = $2`

  async function find(owner: UserId, channel: ChannelId): ReturnType<Channels['find']> {
    const [row] = await database.query<ChannelRow & VersionRow>(findSql, [owner, channel])
    return row === undefined ? undefined : { channel: toChannel(row), version: row.version }
  }

  const isTheirs = async (owner: UserId, channel: ChannelId): Promise<boolean> => (await find(owner, channel)) !== undefined

  return {
    async create(by, channels, requested = []) {
      const rows = channels.map(({ name, metadata }, index) => {
        const requestedId = requested[index]?.id
        const id = requestedId === undefined ? newChannelId() : toChannelId(requestedId)
        return { id, name, name_folded: foldedName(name), metadata }
      })
      const ids = rows.map(({ id }) => id)
      const isMade = writes(by, async write => {
        if (requested.length > 0 && (await write.query(othersDeletedSql, [ids, by.user])).length > 0) throw inUse()
        await demandCapacity(write, by.user, 'channels', rows.length)
        await write.query(insertSql, [by.user, JSON.stringify(rows)])
        write.note('channel.create', ids)
        // Until now an administrator may have read what other producers sent under a given id.
        write.ends(...ids.filter((_, index) => requested[index]?.id !== undefined).map(channel => ({ kind: 'channel' as const, channel })))
      })
      await isMade.catch(refuseUsed)
      return rows.map(({ id, name, metadata }) => (metadata === undefined ? { id, name } : { id, name, metadata }))
    },

    find,

    async exists(channel) {
      return (await database.query('SELECT 1 FROM control_plane.channels WHERE id = $1', [channel])).length > 0
    },

    async isOwner(user, channel) {
      return (await database.query('SELECT 1 FROM control_plane.channels WHERE id = $1 AND owner = $2', [channel, user])).length > 0
    },

    async list(by, { only, ...filter }, page) {
      const matching =
        only === undefined ? ([ownSql, [by.user]] as const) : ([`${ownSql} AND id = ANY ($2::uuid[])`, [by.user, only]] as const)
      return toPage(await filteredRows<ChannelRow>(database, matching, filter, page, by), toChannel)
    },

    async listConnected(owner, thing, connected, page) {
      const sql = pageSql(connected ? connectedSql : unconnectedSql, 4, page)
      return toPage(await database.query<ListedRow>(sql, [owner, thing, page.offset, page.limit]), toChannel)
    },

    async update(by, channel, { name, metadata }, versions) {
      const to: SqlValue[] = [name, foldedName(name), metadata === undefined ? null : JSON.stringify(metadata)]
      const row = await writes(by, async write => {
        const [updated] = await write.query<VersionRow>(updateSql, [by.user, channel, versions ?? null, ...to])
        if (updated !== undefined) write.note('channel.update', [channel])
        return updated
      })
      return outcomeOf(row, () => isTheirs(by.user, channel))
    },

    async remove(by, channel, versions) {
      const row = await writes(by, async write => {
        const [removed] = await write.query<VersionRow>(removeSql, [by.user, channel, versions ?? null])
        if (removed === undefined) return undefined
        write.note('channel.delete', [channel])
        write.ends({ kind: 'channel', channel })
        return removed
      })
      return outcomeOf(row, () => isTheirs(by.user, channel))
    },
  }
}

function toChannel({ id, name, metadata }: ChannelRow): Channel {
  return metadata === null ? { id, name } : { id, name, metadata: parseJsonText(metadata) as Metadata }
}
