// Channels in the database.

import type { Database, SqlRow } from '../../config/postgres/database.ts'
import type { NewEntity } from '../entity.ts'
import { type ChannelId, newChannelId, type UserId } from '../ids.ts'
import type { Page, PageRequest } from '../page.ts'

export interface Channel {
  readonly id: ChannelId
  readonly name: string
}

export interface Channels {
  /** All or none; in the order given. */
  create(owner: UserId, channels: readonly NewEntity[]): Promise<Channel[]>
  /** Those of one owner, in the order of creation. */
  list(owner: UserId, page: PageRequest): Promise<Page<Channel>>
}

const insertSql = `
  INSERT INTO control_plane.channels (id, owner, name, metadata)
  SELECT id, $1, name, metadata
  FROM ROWS FROM (json_to_recordset($2::json) AS (id uuid, name text, metadata jsonb)) WITH ORDINALITY AS channel
  ORDER BY channel.ordinality`

// One statement, so that the total and the page are of one moment; a page beyond the end still tells the total.
const listSql = `
  SELECT counted.total, page.*
  FROM (SELECT count(*) AS total FROM control_plane.channels WHERE owner = $1) AS counted
  LEFT JOIN LATERAL (
    SELECT ordinal, id, name FROM control_plane.channels WHERE owner = $1 ORDER BY ordinal OFFSET $2 LIMIT $3
  ) AS page ON true
  ORDER BY page.ordinal`

type ChannelRow = SqlRow & { id: ChannelId; name: string }

export function openChannels(database: Database): Channels {
  return {
    async create(owner, channels) {
      const rows = channels.map(({ name, metadata }) => ({ id: newChannelId(), name, metadata }))
      await database.query(insertSql, [owner, JSON.stringify(rows)])
      return rows.map(({ id, name }) => ({ id, name }))
    },
    async list(owner, { offset, limit }) {
      const rows = await database.query<ChannelRow & { total: bigint }>(listSql, [owner, offset, limit])
      const items = rows.filter(row => row.id !== null).map(({ id, name }) => ({ id, name }))
      return { total: Number(rows[0]?.total ?? 0), items }
    },
  }
}
