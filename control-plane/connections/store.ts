// Which things are connected to which channels.

import type { Database } from '../../database/database.ts'
import type { AccessChange } from '../client.ts'
import type { ChannelId, ThingId } from '../ids.ts'
import { isDelivered } from '../policies/policy-store.ts'
import type { Caller, Write, Writes } from '../writes.ts'

export interface Connections {
  /**
   * Connects each thing to each channel, all or none; connections that exist stay.
   *
   * @returns false, with nothing connected, unless `by` owns every thing and every channel
   */
  connect(by: Caller, channels: readonly ChannelId[], things: readonly ThingId[]): Promise<boolean>
  /**
   * Disconnects each thing from each channel, all or none; listeners to access changes have run when it resolves.
   *
   * @returns false, with nothing disconnected, unless `by` owns every thing and every channel
   */
  disconnectAll(by: Caller, channels: readonly ChannelId[], things: readonly ThingId[]): Promise<boolean>
  /** `not-owned` unless `by` owns both; listeners to access changes have run when it resolves. */
  disconnect(by: Caller, channel: ChannelId, thing: ThingId): Promise<'disconnected' | 'not-connected' | 'not-owned'>
  /** Whether every one of the entities exists, whoever owns it. */
  exist(channels: readonly ChannelId[], things: readonly ThingId[]): Promise<boolean>
}

// The locks keep an owned entity from being deleted until the connections are committed.
const ownedChannelsSql = 'SELECT id FROM control_plane.channels WHERE owner = $1 AND id = ANY($2::uuid[]) ORDER BY id FOR KEY SHARE'
const ownedThingsSql = `
  SELECT id FROM control_plane.things WHERE owner = $1 AND id = ANY($2::uuid[]) AND ${isDelivered('things.id')} ORDER BY id FOR KEY SHARE`

// Sorted, so that two requests with the same pairs lock them in the same order and do not deadlock.
const connectSql = `
  INSERT INTO control_plane.connections (thing, channel)
  SELECT thing, channel FROM unnest($1::uuid[]) AS thing, unnest($2::uuid[]) AS channel
  ORDER BY thing, channel
  ON CONFLICT DO NOTHING
  RETURNING thing, channel`

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

/** A process that follows changes is disconnected when too many are waiting for it (`internal/routes.ts`). */
const announcedPairsMax = 500

type Pair = { thing: string; channel: string }
/** Locks and returns those of the channels that `write.user` owns: none of them is deleted before the write ends. */
export async function lockOwnedChannels(write: Write & Caller, channels: readonly ChannelId[]): Promise<ChannelId[]> {
  return (await write.query<{ id: ChannelId }>(ownedChannelsSql, [write.user, channels])).map(({ id }) => id)
}

/** The same for things. */
export async function lockOwnedThings(write: Write & Caller, things: readonly ThingId[]): Promise<ThingId[]> {
  return (await write.query<{ id: ThingId }>(ownedThingsSql, [write.user, things])).map(({ id }) => id)
}

export function openConnections(database: Database, writes: Writes): Connections {
  /** Calls `work` with each thing and each channel once, in a write that has locked them all. @returns false if the caller does not own all of them */
  async function withOwned(
    by: Caller,
    channels: readonly ChannelId[],
    things: readonly ThingId[],
    work: (write: Write, channels: ChannelId[], things: ThingId[]) => Promise<void>,
  ): Promise<boolean> {
    const [channelSet, thingSet] = [[...new Set(channels)], [...new Set(things)]]
    return writes(by, async write => {
      const ownedChannels = await lockOwnedChannels(write, channelSet)
      const ownedThings = await lockOwnedThings(write, thingSet)
      if (ownedChannels.length < channelSet.length || ownedThings.length < thingSet.length) return false
      await work(write, channelSet, thingSet)
      return true
    })
  }

  return {
    connect: (by, channels, things) =>
      withOwned(by, channels, things, async (write, channelSet, thingSet) => {
        const made = await write.query<Pair>(connectSql, [thingSet, channelSet])
        if (made.length > 0) write.note('connect', endsOf(made, channelSet, thingSet))
      }),

    disconnectAll: (by, channels, things) =>
      withOwned(by, channels, things, async (write, channelSet, thingSet) => {
        const removed = await write.query<Pair>(disconnectAllSql, [thingSet, channelSet])
        if (removed.length > 0) write.note('disconnect', endsOf(removed, channelSet, thingSet))
        write.ends(...changesOf(removed))
      }),

    async disconnect(by, channel, thing) {
      return writes(by, async write => {
        const [row] = await write.query<{ owned: boolean; removed: boolean }>(disconnectSql, [by.user, channel, thing])
        if (row?.owned !== true) return 'not-owned'
        if (!row.removed) return 'not-connected'
        write.note('disconnect', [channel, thing])
        write.ends({ kind: 'disconnected', thing, channel })
        return 'disconnected'
      })
    },

    async exist(channels, things) {
      const [channelSet, thingSet] = [[...new Set(channels)], [...new Set(things)]]
      const [row] = await database.query<{ channels: bigint; things: bigint }>(existSql, [channelSet, thingSet])
      return Number(row?.channels) === channelSet.length && Number(row?.things) === thingSet.length
    },
  }
}

/** The channels and things of the pairs, in the given order. */
function endsOf(pairs: readonly Pair[], channels: readonly string[], things: readonly string[]): string[] {
  const ends = new Set(pairs.flatMap(({ thing, channel }) => [thing, channel]))
  return [...channels, ...things].filter(end => ends.has(end))
}

/** The changes to announce for these pairs. Many pairs are announced by their things or their channels; caches then ask again about the connections that stay. */
function changesOf(pairs: readonly Pair[]): AccessChange[] {
  if (pairs.length <= announcedPairsMax) return pairs.map(({ thing, channel }) => ({ kind: 'disconnected', thing, channel }))
  const [things, channels] = [new Set(pairs.map(({ thing }) => thing)), new Set(pairs.map(({ channel }) => channel))]
  return things.size < channels.size
    ? [...things].map(thing => ({ kind: 'thing', thing }))
    : [...channels].map(channel => ({ kind: 'channel', channel }))
}
