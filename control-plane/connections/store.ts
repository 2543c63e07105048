// Which things are connected to which channels.

import type { Database, Transaction } from '../../config/postgres/database.ts'
import type { Changes } from '../changes.ts'
import type { ChannelId, ThingId, UserId } from '../ids.ts'

export interface Connections {
  /**
   * Connects each thing to each channel, all or none; what is connected stays so.
   *
   * @returns false, with nothing connected, unless `owner` owns every thing and every channel
   */
  connect(owner: UserId, channels: readonly ChannelId[], things: readonly ThingId[]): Promise<boolean>
  /**
   * Disconnects each thing from each channel, all or none; listeners to access changes have run when it resolves.
   *
   * @returns false, with nothing disconnected, unless `owner` owns every thing and every channel
   */
  disconnectAll(owner: UserId, channels: readonly ChannelId[], things: readonly ThingId[]): Promise<boolean>
  /** `not-owned` unless `owner` owns both; listeners to access changes have run when it resolves. */
  disconnect(owner: UserId, channel: ChannelId, thing: ThingId): Promise<'disconnected' | 'not-connected' | 'not-owned'>
  /** Whether every one of the entities exists, whoever owns it. */
  exist(channels: readonly ChannelId[], things: readonly ThingId[]): Promise<boolean>
}

// The locks keep an owned entity from being deleted until the connections are committed.
const ownedChannelsSql = 'SELECT id FROM control_plane.channels WHERE owner = $1 AND id = ANY($2::uuid[]) ORDER BY id FOR KEY SHARE'
const ownedThingsSql = 'SELECT id FROM control_plane.things WHERE owner = $1 AND id = ANY($2::uuid[]) ORDER BY id FOR KEY SHARE'

// Sorted, so that two requests that connect the same pairs wait for each other in one order.
const connectSql = `
  INSERT INTO control_plane.connections (thing, channel)
  SELECT thing, channel FROM unnest($1::uuid[]) AS thing, unnest($2::uuid[]) AS channel
  ORDER BY thing, channel
  ON CONFLICT DO NOTHING`

const disconnectAllSql = `
  DELETE FROM control_plane.connections WHERE thing = ANY($1::uuid[]) AND channel = ANY($2::uuid[])
  RETURNING thing, channel`

const disconnectSql = `
  WITH owned AS (
    SELECT channels.id AS channel, things.id AS thing
    FROM control_plane.channels, control_plane.things
    WHERE channels.id = $2 AND things.id = $3 AND channels.owner = $1 AND things.owner = $1
  ), removed AS (
    DELETE FROM control_plane.connections USING owned
    WHERE connections.channel = owned.channel AND connections.thing = owned.thing
    RETURNING 1
  )
  SELECT EXISTS (SELECT FROM owned) AS owned, EXISTS (SELECT FROM removed) AS removed`

const existSql = `
  SELECT (SELECT count(*) FROM control_plane.channels WHERE id = ANY($1::uuid[])) AS channels,
         (SELECT count(*) FROM control_plane.things WHERE id = ANY($2::uuid[])) AS things`

export function openConnections(database: Database, changes: Changes): Connections {
  /** `work` with each thing and each channel once, in a transaction that holds them all; undefined where one is not the owner's. */
  async function withOwned<Result>(
    owner: UserId,
    channels: readonly ChannelId[],
    things: readonly ThingId[],
    work: (transaction: Transaction, channels: ChannelId[], things: ThingId[]) => Promise<Result>,
  ): Promise<Result | undefined> {
    const [channelSet, thingSet] = [[...new Set(channels)], [...new Set(things)]]
    return await database.transaction(async transaction => {
      const ownedChannels = await transaction.query(ownedChannelsSql, [owner, channelSet])
      const ownedThings = await transaction.query(ownedThingsSql, [owner, thingSet])
      if (ownedChannels.length < channelSet.length || ownedThings.length < thingSet.length) return undefined
      return await work(transaction, channelSet, thingSet)
    })
  }

  return {
    async connect(owner, channels, things) {
      const connected = await withOwned(owner, channels, things, async (transaction, channelSet, thingSet) => {
        await transaction.query(connectSql, [thingSet, channelSet])
        return true
      })
      return connected === true
    },

    async disconnectAll(owner, channels, things) {
      const ended = await withOwned(owner, channels, things, async (transaction, channelSet, thingSet) => {
        const removed = await transaction.query<{ thing: string; channel: string }>(disconnectAllSql, [thingSet, channelSet])
        const ends = removed.map(({ thing, channel }) => ({ kind: 'disconnected', thing, channel }) as const)
        await changes.announceAll(ends, transaction)
        return ends
      })
      for (const change of ended ?? []) changes.emit(change)
      return ended !== undefined
    },

    async disconnect(owner, channel, thing) {
      const change = { kind: 'disconnected', thing, channel } as const
      const outcome = await database.transaction(async transaction => {
        const [row] = await transaction.query<{ owned: boolean; removed: boolean }>(disconnectSql, [owner, channel, thing])
        if (row?.owned !== true) return 'not-owned'
        if (!row.removed) return 'not-connected'
        await changes.announce(change, transaction)
        return 'disconnected'
      })
      if (outcome === 'disconnected') changes.emit(change)
      return outcome
    },

    async exist(channels, things) {
      const [channelSet, thingSet] = [[...new Set(channels)], [...new Set(things)]]
      const [row] = await database.query<{ channels: bigint; things: bigint }>(existSql, [channelSet, thingSet])
      return Number(row?.channels) === channelSet.length && Number(row?.things) === thingSet.length
    },
  }
}
