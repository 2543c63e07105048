// A control plane with many owners, things, channels, groups and policies: created by SQL within seconds, for tests of plans and for benchmarks.
//
//   things     a tenth belongs to owner 0, the rest evenly to the others, about 900 each; an owner created them by the hundred
//   channels   a tenth of the things, ten for each hundred; a thing is connected to one
//   devices    every tenth thing has a bootstrap configuration and a mapping
//   certificates   of a tenth of the things, one each
//   groups     two for each owner: of users, with the five owners that follow, and of things, with a tenth of the things of each hundred.
//              The first is shared with the second, so the five read those things through two groups
//   policies   those that the product writes for all of these, and `read` on every twentieth thing for the seventh owner that follows
//
// Ids are derived from a number, so that any of them is known without a request.

import { hash } from 'node:crypto'
import {
  type ChannelId,
  type GroupId,
  type ThingId,
  toChannelId,
  toGroupId,
  toThingId,
  toUserId,
  type UserId,
} from '../../control-plane/ids.ts'
import type { ThingKeys } from '../../control-plane/things/keys.ts'
import type { Database } from '../../database/database.ts'

const thingsOfBlock = 100
const channelsOfBlock = 10
const thingsOfOwner = 1_000

/** Members of an owner's group of users beside the owner: those whose numbers follow. */
export const groupMembers = 5

export interface Population {
  readonly things: number
  readonly channels: number
  readonly owners: number
}

/** @param things a multiple of 10,000 */
export function populationOf(things: number): Population {
  return { things, channels: (things * channelsOfBlock) / thingsOfBlock, owners: things / thingsOfOwner }
}

export const ownerAt = (nth: number): UserId => toUserId(idOf('owner', nth))
export const thingAt = (nth: number): ThingId => toThingId(idOf('thing', nth))
export const channelAt = (nth: number): ChannelId => toChannelId(idOf('channel', nth))
/** The external id of a device's configuration and mapping, which every tenth thing has. */
export const deviceAt = (thing: number): string => `device-${thing}`
export const usersGroupAt = (owner: number): GroupId => toGroupId(idOf('users group', owner))
export const thingsGroupAt = (owner: number): GroupId => toGroupId(idOf('things group', owner))

/** The number of a thing's owner. */
export function ownerOfThing({ owners }: Population, thing: number): number {
  const block = Math.floor(thing / thingsOfBlock)
  return block % 10 === 0 ? 0 : 1 + (block % (owners - 1))
}

/** The number of an owner's first hundred things: `thingAt(100 * block)`; its channels are `channelAt(10 * block)`. */
export function firstBlockOf(population: Population, owner: number): number {
  let block = 0
  while (ownerOfThing(population, block * thingsOfBlock) !== owner) block++
  return block
}

export const isInGroup = (thing: number): boolean => thing % 10 === 5

function idOf(kind: string, nth: number): string {
  return hash('md5', `${kind} ${nth}`).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** The same in SQL. */
const sqlId = (kind: string, nth: string): string => `md5('${kind} ' || ${nth})::uuid`
const blockOwner = (block: string): string => `CASE WHEN ${block} % 10 = 0 THEN 0 ELSE 1 + ${block} % ($owners - 1) END`
const thingOwner = blockOwner(`(n / ${thingsOfBlock})`)
const rights = `unnest(ARRAY['read', 'write', 'delete']) AS relation`

/** `$things`, `$channels` and `$owners` are replaced by the numbers. Policies are sorted, because an index accepts sorted rows several times faster. */
const steps: readonly { readonly what: string; readonly sql: string }[] = [
  {
    what: 'users',
    sql: `INSERT INTO users (id, email, password_hash) SELECT ${sqlId('owner', 'n')}, 'owner-' || n || '@sluice.example', 'none'
          FROM generate_series(0, $owners - 1) AS n;
          INSERT INTO api_keys (id, owner, name, lookup) SELECT ${sqlId('api key', 'n')}, ${sqlId('owner', 'n % $owners')}, 'key ' || n,
          sha256(('api key ' || n)::bytea) FROM generate_series(0, $owners * 10 - 1) AS n`,
  },
  {
    what: 'things',
    sql: `INSERT INTO things (id, owner, name, name_folded, metadata, key_ciphertext, key_lookup)
          SELECT ${sqlId('thing', 'n')}, ${sqlId('owner', `(${thingOwner})`)}, 'Sensor ' || lpad(n::text, 7, '0'), 'sensor ' || lpad(n::text, 7, '0'),
                 jsonb_build_object('site', 'site-' || n % 97, 'kind', 'sensor', 'serial', n, 'position', jsonb_build_object('floor', n % 7)),
                 decode(repeat('00', 68), 'hex'), sha256(('key ' || n)::bytea)
          FROM generate_series(0, $things - 1) AS n`,
  },
  {
    what: 'channels',
    sql: `INSERT INTO channels (id, owner, name, name_folded, metadata)
          SELECT ${sqlId('channel', 'n')}, ${sqlId('owner', `(${blockOwner(`(n / ${channelsOfBlock})`)})`)}, 'Channel ' || n, 'channel ' || n,
                 jsonb_build_object('site', 'site-' || n % 97)
          FROM generate_series(0, $channels - 1) AS n`,
  },
  {
    what: 'connections',
    sql: `INSERT INTO connections (thing, channel)
          SELECT ${sqlId('thing', 'n')}, ${sqlId('channel', `((n / ${thingsOfBlock}) * ${channelsOfBlock} + n % ${channelsOfBlock})`)} AS channel
          FROM generate_series(0, $things - 1) AS n ORDER BY 1, 2`,
  },
  {
    what: 'configurations and mappings',
    sql: `INSERT INTO bootstrap_configs (thing, owner, external_id, key_lookup, key_id, name, name_folded, channels, state)
          SELECT ${sqlId('thing', 'n')}, ${sqlId('owner', `(${thingOwner})`)}, 'device-' || n, sha256(('device ' || n)::bytea), '\\x00000000',
                 'Device ' || n, 'device ' || n, ARRAY[${sqlId('channel', `((n / ${thingsOfBlock}) * ${channelsOfBlock} + n % ${channelsOfBlock})`)}], 1
          FROM generate_series(0, $things - 1, 10) AS n;
          INSERT INTO mappings (owner, external_id, key_lookup, key_id, thing, things, channels, is_whitelisted)
          SELECT owner, external_id, key_lookup, key_id, thing, ARRAY[thing], channels, true FROM bootstrap_configs`,
  },
  {
    what: 'groups',
    sql: `INSERT INTO groups (id, owner, name, name_folded)
          SELECT md5(kind || ' group ' || n)::uuid, ${sqlId('owner', 'n')}, kind || ' ' || n, kind || ' ' || n
          FROM generate_series(0, $owners - 1) AS n, unnest(ARRAY['users', 'things']) AS kind;
          INSERT INTO group_things (group_id, thing) SELECT ${sqlId('things group', `(${thingOwner})`)}, ${sqlId('thing', 'n')}
          FROM generate_series(5, $things - 1, 10) AS n`,
  },
  {
    what: 'certificates',
    sql: `INSERT INTO certificates (serial, thing, owner, authority, certificate, expires_at, revoked_at)
          SELECT md5('certificate ' || n), ${sqlId('thing', 'n')}, ${sqlId('owner', `(${thingOwner})`)}, 'builtin', 'none', now() + n % 100 * interval '1 day', CASE WHEN n % 100000 = 4 THEN now() END
          FROM generate_series(4, $things - 1, 10) AS n`,
  },
  {
    what: 'policies',
    sql: `INSERT INTO tuples (object, relation, subject)
          SELECT id::text, relation, owner::text FROM things, ${rights}
          UNION ALL SELECT thing::text, relation, group_id || '#member' FROM group_things, ${rights}
          UNION ALL SELECT ${sqlId('thing', 'n')}::text, 'read', ${sqlId('owner', `((${thingOwner}) + 7) % $owners`)}::text
                    FROM generate_series(3, $things - 1, 20) AS n
          UNION ALL SELECT 'users', 'member', id::text FROM users
          UNION ALL SELECT id::text, 'member', owner::text FROM groups
          UNION ALL SELECT ${sqlId('users group', 'n')}::text, 'member', ${sqlId('owner', '(n + step) % $owners')}::text
                    FROM generate_series(0, $owners - 1) AS n, generate_series(1, ${groupMembers}) AS step
          UNION ALL SELECT ${sqlId('things group', 'n')}::text, 'member', ${sqlId('users group', 'n')} || '#member'
                    FROM generate_series(0, $owners - 1) AS n
          ORDER BY 1, 2, 3
          ON CONFLICT DO NOTHING`,
  },
]

/**
 * Fills the tables of a control plane that has started. Passwords and thing keys are not valid: `giveKeys` generates keys for things that are shown.
 *
 * @param progress called before each step, with what it creates
 */
export async function populate(
  database: Database,
  { things, channels, owners }: Population,
  progress: (what: string) => void = () => undefined,
): Promise<void> {
  for (const { what, sql } of steps) {
    progress(what)
    const numbered = sql.replaceAll('$things', `${things}`).replaceAll('$channels', `${channels}`).replaceAll('$owners', `${owners}`)
    // As a replica, PostgreSQL does not check foreign keys, which would take as long again as the rows.
    await database.execute(
      `BEGIN; SET LOCAL search_path TO control_plane; SET LOCAL session_replication_role TO replica; ${numbered}; COMMIT`,
    )
  }
  progress('statistics')
  await settle(database)
}

/** Leaves the tables as autovacuum does. */
export async function settle(database: Database): Promise<void> {
  await database.execute('VACUUM ANALYZE')
}

/** Gives each thing a key that the master key decrypts, for lists and views. */
export async function giveKeys(database: Database, thingKeys: ThingKeys, things: readonly ThingId[]): Promise<void> {
  const hex = things.map(thing => thingKeys.issue(thing).ciphertext.toString('hex'))
  const sql = `UPDATE control_plane.things SET key_ciphertext = decode(hex, 'hex')
    FROM ROWS FROM (unnest($1::uuid[]), unnest($2::text[])) AS given (thing, hex) WHERE things.id = given.thing`
  await database.query(sql, [things, hex])
}
