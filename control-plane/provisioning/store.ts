// Mappings in the database: what was made for which external id of an owner.

import { parseJsonText } from '../../config/http/json-body.ts'
import type { Database, Queries, SqlRow } from '../../config/postgres/database.ts'
import { type ExternalCredential, type ExternalKeys, keptSql } from '../bootstrap/external-keys.ts'
import { type Channel, channelsSql, parseChannels } from '../channels/store.ts'
import type { ChannelId, ThingId, UserId } from '../ids.ts'
import { isDelivered } from '../policies/policy-store.ts'
import type { Caller, Write } from '../writes.ts'
import type { AnsweredCertificates } from './certificates.ts'

export interface NewMapping extends ExternalCredential {
  /** The one that the external id belongs to. */
  readonly thing: ThingId
  readonly things: readonly ThingId[]
  readonly channels: readonly ChannelId[]
  readonly isWhitelisted: boolean
  /** Without private keys. */
  readonly certificates: AnsweredCertificates | undefined
}

export interface StoredMapping {
  readonly keyLookup: Uint8Array
  /** Which master key that is made under. */
  readonly masterKeyId: Uint8Array
  /** Those that still exist, as the channels, in the order of the layout. */
  readonly things: readonly ThingId[]
  readonly channels: readonly Channel[]
  readonly isWhitelisted: boolean
  readonly certificates: AnsweredCertificates | undefined
  /** Whether the policies of its things hold: until then there is nothing to be seen of it. */
  readonly isDelivered: boolean
}

export interface MappingRows {
  /** Others who make or remove the mapping of this external id of the same owner wait for the end of the write. */
  lock(write: Write & Caller, externalId: string): Promise<void>
  /** In the transaction, where one is given. */
  find(owner: UserId, externalId: string, transaction?: Queries): Promise<StoredMapping | undefined>
  /** Whether any owner has a mapping of the external id. */
  exists(externalId: string): Promise<boolean>
  /** Whether any owner has one of the external id with this key. */
  isTaken(credential: ExternalCredential, transaction?: Queries): Promise<boolean>
  /** @throws DatabaseError of the constraint `mappings_key_unique` where another owner was faster */
  insert(write: Write & Caller, mapping: NewMapping): Promise<void>
}

const lockSql = 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text'

const findSql = `
  SELECT key_lookup, key_id, is_whitelisted, certificates, ${isDelivered('mappings.thing')} AS is_delivered,
    ARRAY(
      SELECT things.id FROM unnest(mappings.things) WITH ORDINALITY AS listed (thing, ordinality)
      JOIN control_plane.things ON things.id = listed.thing AND things.owner = mappings.owner
      ORDER BY ordinality
    ) AS things,
    ${channelsSql('mappings.channels', 'mappings.owner')} AS channels
  FROM control_plane.mappings WHERE owner = $1 AND external_id = $2`

const insertSql = `
  INSERT INTO control_plane.mappings (owner, external_id, key_lookup, key_id, thing, things, channels, is_whitelisted, certificates)
  VALUES ($1, $2, $3, $4, $5, $6::uuid[], $7::uuid[], $8, $9::json)`

type MappingRow = SqlRow & {
  key_lookup: Uint8Array
  key_id: Uint8Array
  is_whitelisted: boolean
  /** JSON, as the channels. */
  certificates: string | null
  is_delivered: boolean
  things: ThingId[]
  channels: string
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
        isWhitelisted: row.is_whitelisted,
        certificates: row.certificates === null ? undefined : (parseJsonText(row.certificates) as AnsweredCertificates),
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

    async insert(write, { thing, things, channels, isWhitelisted, certificates, ...credential }) {
      const kept = externalKeys.keep(credential)
      const ofExternal = [credential.externalId, kept.lookup, kept.masterKeyId]
      const issued = certificates === undefined ? null : JSON.stringify(certificates)
      await write.query(insertSql, [write.user, ...ofExternal, thing, things, channels, isWhitelisted, issued])
    },
  }
}
