// Mappings in the database: what was created for which external id of an owner.

import type { Database, Queries, SqlRow } from '../../database/database.ts'
import { type ExternalCredential, type ExternalKeys, keptSql } from '../bootstrap/external-keys.ts'
import { type Channel, channelsSql, parseChannels } from '../channels/store.ts'
import type { ChannelId, ThingId, UserId } from '../ids.ts'
import { isDelivered } from '../policies/policy-store.ts'
import type { Caller, Write } from '../writes.ts'
import type { Issuer } from './certificates.ts'

export interface NewMapping extends ExternalCredential {
  /** The thing that the external id belongs to. */
  readonly thing: ThingId
  readonly things: readonly ThingId[]
  readonly channels: readonly ChannelId[]
  /** Those of the channels that the mapping has not created. */
  readonly existing: readonly ChannelId[]
  readonly isWhitelisted: boolean
  /** The issuer of its certificates; undefined if it has none. */
  readonly issuer: Issuer | undefined
}

export interface StoredMapping {
  readonly keyLookup: Uint8Array
  /** The id of the master key that the look-up is made under. */
  readonly masterKeyId: Uint8Array
  /** The things that still exist, in the order of the layout; the same for the channels. */
  readonly things: readonly ThingId[]
  readonly channels: readonly Channel[]
  /** Also of those that no longer exist. */
  readonly existing: readonly ChannelId[]
  readonly isWhitelisted: boolean
  readonly issuer: Issuer | undefined
  /** Whether the policies of its things are in force; until then the mapping is not shown. */
  readonly isDelivered: boolean
}

export interface MappingRows {
  /** Locks the external id of the owner until the write ends: other requests that create or remove its mapping wait. */
  lock(write: Write & Caller, externalId: string): Promise<void>
  /** Reads in the transaction, if one is given. */
  find(owner: UserId, externalId: string, transaction?: Queries): Promise<StoredMapping | undefined>
  /** Whether any owner has a mapping of the external id. */
  exists(externalId: string): Promise<boolean>
  /** Whether any owner has a mapping of the external id with this key. */
  isTaken(credential: ExternalCredential, transaction?: Queries): Promise<boolean>
  /** Those of the channels that the owner has, in the order given. */
  channels(owner: UserId, ids: readonly ChannelId[], transaction?: Queries): Promise<Channel[]>
  /** Those of the channels, in their order, that no other mapping of the owner shares. */
  unshared(owner: UserId, externalId: string, channels: readonly ChannelId[], transaction: Queries): Promise<ChannelId[]>
  /** @throws DatabaseError of the constraint `mappings_key_unique` if another owner was faster */
  insert(write: Write & Caller, mapping: NewMapping): Promise<void>
}

const lockSql = 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text'

const findSql = `
  SELECT key_lookup, key_id, existing, is_whitelisted, issuing_ca, ca_chain, ${isDelivered('mappings.thing')} AS is_delivered,
    ARRAY(
      SELECT things.id FROM unnest(mappings.things) WITH ORDINALITY AS listed (thing, ordinality)
      JOIN control_plane.things ON things.id = listed.thing AND things.owner = mappings.owner
      ORDER BY ordinality
    ) AS things,
    ${channelsSql('mappings.channels', 'mappings.owner')} AS channels
  FROM control_plane.mappings WHERE owner = $1 AND external_id = $2`

const insertSql = `
  INSERT INTO control_plane.mappings (owner, external_id, key_lookup, key_id, thing, things, channels, existing, is_whitelisted, issuing_ca, ca_chain)
  VALUES ($1, $2, $3, $4, $5, $6::uuid[], $7::uuid[], $8::uuid[], $9, $10, $11::text[])`

type MappingRow = SqlRow & {
  key_lookup: Uint8Array
  key_id: Uint8Array
  is_whitelisted: boolean
  issuing_ca: string | null
  ca_chain: string[] | null
  is_delivered: boolean
  things: ThingId[]
  /** JSON. */
  channels: string
  existing: ChannelId[]
}

export function openMappingRows(database: Database, externalKeys: ExternalKeys): MappingRows {
  return {
    async lock(write, externalId) {
      await write.query(lockSql, [`mapping ${write.user} ${externalId}`])
    },

    async find(owner, externalId, transaction) {
      const [row] = await (transaction ?? database).query<MappingRow>(findSql, [owner, externalId])
      if (row === undefined) return undefined
      return {
        keyLookup: row.key_lookup,
        masterKeyId: row.key_id,
        things: row.things,
        channels: parseChannels(row.channels),
        existing: row.existing,
        isWhitelisted: row.is_whitelisted,
        issuer: row.issuing_ca === null ? undefined : { issuingCa: row.issuing_ca, caChain: row.ca_chain },
        isDelivered: row.is_delivered,
      }
    },

    async exists(externalId) {
      return (await database.query('SELECT 1 FROM control_plane.mappings WHERE external_id = $1 LIMIT 1', [externalId])).length > 0
    },

    async isTaken(credential, transaction) {
      const sql = `SELECT 1 FROM control_plane.mappings WHERE ${keptSql('$1')}`
      return (await (transaction ?? database).query(sql, [externalKeys.lookups(credential)])).length > 0
    },

    async channels(owner, ids, transaction) {
      const sql = `SELECT ${channelsSql('$1::uuid[]', '$2')} AS channels`
      const [row] = await (transaction ?? database).query<{ channels: string }>(sql, [ids, owner])
      return parseChannels(row!.channels)
    },

    async unshared(owner, externalId, channels, transaction) {
      const sql = `SELECT id FROM unnest($1::uuid[]) WITH ORDINALITY AS created (id, ordinality) WHERE id <> ALL (ARRAY(
        SELECT unnest(existing) FROM control_plane.mappings WHERE owner = $2 AND existing <> '{}' AND external_id <> $3)) ORDER BY ordinality`
      return (await transaction.query<{ id: ChannelId }>(sql, [channels, owner, externalId])).map(({ id }) => id)
    },

    async insert(write, { thing, things, channels, existing, isWhitelisted, issuer, ...credential }) {
      const kept = externalKeys.keep(credential)
      const credentialValues = [credential.externalId, kept.lookup, kept.masterKeyId]
      const issuerValues = [issuer?.issuingCa ?? null, issuer?.caChain ?? null]
      await write.query(insertSql, [write.user, ...credentialValues, thing, things, channels, existing, isWhitelisted, ...issuerValues])
    },
  }
}
