// Bootstrap configurations in the database: every statement on them.

import type { MasterKeys } from '../../config/secrets.ts'
import { type Database, DatabaseError, type Queries, type SqlRow, type SqlValue, uniqueViolation } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { isInCrl } from '../certificates/authorities/builtin-store.ts'
import type { Certificates } from '../certificates/store.ts'
import { channelsSql, parseChannels } from '../channels/store.ts'
import { type Connections, lockOwnedChannels, lockOwnedThings } from '../connections/store.ts'
import { foldedName } from '../entity.ts'
import type { ChannelId, ThingId, UserId } from '../ids.ts'
import { isDelivered } from '../policies/policy-store.ts'
import { pageSql, toPage } from '../requests/page.ts'
import { openSealedTexts, type SealedTexts } from '../sealed-text.ts'
import type { ThingKeys } from '../things/keys.ts'
import type { Things } from '../things/store.ts'
import type { Caller, Write, Writes } from '../writes.ts'
import type { BootstrapConfig, BootstrapConfigs } from './bootstrap-configs.ts'
import { type ExternalCredential, type ExternalKeys, ExternalKeyTakenError, keptSql } from './external-keys.ts'

/** In SQL: whether the day is over for which a private key is returned after its first fetch. */
const isOver = "client_key_fetched_at < now() - interval '24 hours'"
/** How many private keys one fetch, or one new configuration, erases. */
const erasedMax = 10

const columns = `
  configs.ordinal, configs.thing AS id, configs.name, configs.external_id, configs.content AS ciphertext, configs.state, configs.is_enabled, configs.version,
  to_char(configs.fetched_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS fetched_at, things.key_ciphertext,
  ${channelsSql('configs.channels', 'configs.owner')} AS channels`
const from = `FROM control_plane.bootstrap_configs AS configs JOIN control_plane.things ON things.id = configs.thing`
const ownSql = `SELECT ${columns} ${from} WHERE configs.owner = $1 AND ${isDelivered('configs.thing')}`
const openSql = `
  SELECT ${columns}, configs.owner, configs.key_id, CASE WHEN is_good THEN configs.client_cert END AS client_cert, configs.ca_cert,
         CASE WHEN is_good AND ($2::boolean OR (${isOver}) IS NOT TRUE) THEN client_key END AS client_key,
         is_enabled AND NOT EXISTS (SELECT FROM control_plane.users WHERE id = configs.owner AND disabled_at IS NOT NULL) AS is_allowed
  ${from}, LATERAL (
    -- One that was issued here and is revoked is not handed out. Counted: PostgreSQL may read the whole table for a NOT EXISTS, and hash it.
    -- The column is counted, because a condition on it lets PostgreSQL read the index of all revoked certificates.
    SELECT (
      SELECT count(revoked_at) FROM control_plane.certificates
      WHERE certificates.thing = configs.thing AND certificate = configs.client_cert
    ) = 0 AS is_good
  ) AS issued
  WHERE configs.${keptSql('$1')} AND ${isDelivered('configs.thing')}`

const takenSql = `
  SELECT true AS own FROM control_plane.bootstrap_configs WHERE owner = $1 AND external_id = $2
  UNION ALL SELECT true FROM control_plane.bootstrap_configs WHERE thing = $4
  UNION ALL SELECT owner = $1 FROM control_plane.bootstrap_configs WHERE ${keptSql('$3')}
  ORDER BY own DESC`
const insertSql = `
  INSERT INTO control_plane.bootstrap_configs
    (thing, owner, external_id, key_lookup, key_id, name, name_folded, client_cert, ca_cert, content, client_key, channels, state)
  VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, ''), nullif($9, ''), $10, $11, $12::uuid[], $13)`

const lockSql = `
  SELECT channels, state, is_enabled, version, disconnected FROM control_plane.bootstrap_configs WHERE thing = $1 AND owner = $2 FOR UPDATE`
const assignText = (column: string, parameter: string): string =>
  `${column} = CASE WHEN ${parameter}::text IS NULL THEN ${column} ELSE nullif(${parameter}, '') END`
const updateSql = `
  UPDATE control_plane.bootstrap_configs SET
    name = coalesce($2, name), name_folded = coalesce($3, name_folded), ${assignText('client_cert', '$4')}, ${assignText('ca_cert', '$5')},
    content = CASE WHEN $6::boolean THEN $7 ELSE content END, client_key = CASE WHEN $8::boolean THEN $9 ELSE client_key END,
    client_key_fetched_at = CASE WHEN $8 THEN NULL ELSE client_key_fetched_at END,
    channels = coalesce($10::uuid[], channels), state = coalesce($11, state), is_enabled = coalesce($12, is_enabled), version = version + 1
  WHERE thing = $1
  RETURNING channels, state, is_enabled, version, disconnected`
// Enabling connects again what disabling disconnected, whatever the state. A separate statement, which runs before the connections are gone.
const disconnectedSql = `
  UPDATE control_plane.bootstrap_configs SET disconnected = ARRAY(
    SELECT channel FROM control_plane.connections WHERE thing = $1 AND channel = ANY($2::uuid[])
  ) WHERE thing = $1`

const fetchedSql = `
  UPDATE control_plane.bootstrap_configs SET fetched_at = now(),
    client_key_fetched_at = CASE WHEN client_key IS NOT NULL THEN coalesce(client_key_fetched_at, now()) END
  WHERE thing = $1`
const eraseSql = (max: number | 'ALL'): string => `
  UPDATE control_plane.bootstrap_configs SET client_key = NULL WHERE thing IN (
    SELECT thing FROM control_plane.bootstrap_configs WHERE client_key IS NOT NULL AND ${isOver}
    ORDER BY client_key_fetched_at LIMIT ${max} FOR UPDATE SKIP LOCKED
  )`
// Written so that PostgreSQL looks the row up by its thing, and never scans the index of all rows with a private key.
const acknowledgeSql = `
  UPDATE control_plane.bootstrap_configs SET client_key = NULL
  WHERE thing = $1 AND coalesce(length(client_key), 0) > 0 AND client_key_fetched_at IS NOT NULL RETURNING thing`

/** Certificates of a device in the CRL, so that one device cannot use up its owner's limit (`certificates.per_owner_max`). */
const replacedMax = 100
const revokedOfThingSql = `SELECT count(*)::int4 AS revoked FROM control_plane.certificates WHERE thing = $1 AND ${isInCrl}`
// Two statements: the second sees the certificate of a request that the first waited for.
const replacedSql = 'SELECT client_cert FROM control_plane.bootstrap_configs WHERE thing = $1 AND is_enabled FOR UPDATE'
const certifySql = `
  UPDATE control_plane.bootstrap_configs SET
    client_cert = $2, ca_cert = $3, client_key = NULL, client_key_fetched_at = NULL, version = version + 1
  WHERE thing = $1
  RETURNING (SELECT serial FROM control_plane.certificates WHERE certificates.thing = $1 AND certificate = $4) AS replaced`

type StateRow = SqlRow & { channels: ChannelId[]; state: 0 | 1; is_enabled: boolean; version: number; disconnected: ChannelId[] }
type BootstrapConfigRow = SqlRow & {
  id: ThingId
  name: string
  external_id: string
  ciphertext: Uint8Array | null
  state: 0 | 1
  is_enabled: boolean
  version: number
  fetched_at: string | null
  key_ciphertext: Uint8Array
  /** JSON. */
  channels: string
}
type OpenRow = BootstrapConfigRow & {
  owner: UserId
  key_id: Uint8Array
  client_cert: string | null
  client_key: Uint8Array | null
  ca_cert: string | null
  is_allowed: boolean
}

interface Parts {
  readonly database: Database
  readonly writes: Writes
  readonly things: Pick<Things, 'create'>
  readonly connections: Pick<Connections, 'connect' | 'disconnectAll'>
  readonly certificates: Pick<Certificates, 'issuing' | 'revoke'>
  /** Whether a replaced certificate is revoked: not in mode `development`. */
  readonly revokesReplaced: boolean
  readonly thingKeys: ThingKeys
  readonly externalKeys: ExternalKeys
  /** For contents and private keys. */
  readonly sealed: SealedTexts
  /** Private keys are erased only by an acknowledgement: for agents that never store them. */
  readonly keepsPrivateKeys: boolean
}

/** Placeholders that each fetch fills with the current values: if they were stored in the content, no key could be erased, and no key or certificate replaced. */
const filledAtFetch = /\{\{(certificate\.client_cert|certificate\.client_key|certificate\.ca_cert|thing\.key)\}\}/g

/** Encrypts contents and private keys. */
export const openBootstrapSecrets = (masterKeys: MasterKeys): SealedTexts =>
  openSealedTexts(masterKeys, 'bootstrap', 'bootstrap secret of thing')

/** The row that a secret is bound to. */
export const secretRow = (thing: ThingId, secret: 'content' | 'client_key'): string => `${thing} ${secret}`

export function openBootstrapConfigs(parts: Parts): BootstrapConfigs {
  const { database, writes, things, connections, certificates, thingKeys, externalKeys, sealed } = parts

  function toBootstrapConfig(row: BootstrapConfigRow): BootstrapConfig {
    return {
      thing: row.id,
      key: thingKeys.decrypt(row.id, row.key_ciphertext),
      channels: parseChannels(row.channels),
      externalId: row.external_id,
      name: row.name,
      content: decrypted(row.id, 'content', row.ciphertext),
      state: row.state,
      isEnabled: row.is_enabled,
      fetchedAt: row.fetched_at ?? undefined,
    }
  }

  type Secret = Parameters<typeof secretRow>[1]
  const encrypted = (thing: ThingId, secret: Secret, text: string | undefined): Uint8Array | null =>
    text === undefined || text === '' ? null : sealed.seal(secretRow(thing, secret), text)
  const decrypted = (thing: ThingId, secret: Secret, ciphertext: Uint8Array | null): string | undefined =>
    ciphertext === null ? undefined : sealed.open(secretRow(thing, secret), ciphertext)

  async function exists(thing: ThingId): Promise<boolean> {
    return (await database.query('SELECT 1 FROM control_plane.bootstrap_configs WHERE thing = $1', [thing])).length > 0
  }

  async function demandFree(queries: Queries, owner: UserId, credential: ExternalCredential, thing?: ThingId): Promise<void> {
    const values = [owner, credential.externalId, externalKeys.lookups(credential), thing ?? null]
    const [taken] = await queries.query<{ own: boolean }>(takenSql, values)
    if (taken !== undefined) throw taken.own ? owned() : new ExternalKeyTakenError()
  }

  /** Locks the configuration until the write ends. Locks the thing first, as a deletion does. */
  async function lock(write: Write & Caller, thing: ThingId): Promise<StateRow | undefined> {
    if ((await lockOwnedThings(write, [thing])).length === 0) return undefined
    const [row] = await write.query<StateRow>(lockSql, [thing, write.user])
    return row
  }

  /** Connects and disconnects what has changed; if a state was requested, or it was disabled, all of its channels. */
  async function updateConnections(
    write: Write & Caller,
    thing: ThingId,
    before: StateRow,
    after: StateRow,
    isAsked: boolean,
  ): Promise<void> {
    const [were, are] = [before, after].map(({ state, is_enabled: isEnabled, channels }) => (state === 1 && isEnabled ? channels : []))
    const isDisabled = before.is_enabled && !after.is_enabled
    const restored = after.is_enabled && !before.is_enabled && !isAsked ? after.disconnected.filter(id => after.channels.includes(id)) : []
    const added = [...restored, ...(isAsked ? are! : are!.filter(channel => !were!.includes(channel)))]
    const ended = (isAsked || isDisabled ? before.channels : were!).filter(channel => !are!.includes(channel))
    const [connected, disconnected] = [await lockOwnedChannels(write, added), await lockOwnedChannels(write, ended)]
    if (isDisabled || isAsked) await write.query(disconnectedSql, [thing, isDisabled ? ended : []])
    if (connected.length > 0) await connections.connect(write, connected, [thing])
    if (disconnected.length > 0) await connections.disconnectAll(write, disconnected, [thing])
  }

  return {
    async create(by, { thing: requestedThing, channels, state = 0, ...config }) {
      const channelSet = [...new Set(channels)]
      const isMade = writes(by, async write => {
        if ((await lockOwnedChannels(write, channelSet)).length < channelSet.length) return 'not-owned'
        if (requestedThing !== undefined && (await lockOwnedThings(write, [requestedThing])).length === 0) return 'not-owned'
        // After the check of rights, because it reveals that a thing has a configuration.
        await demandFree(write, by.user, config, requestedThing)
        const { name = '', clientCert = '', caCert = '', content, clientKey } = config
        const thing = requestedThing ?? (await things.create(write, [{ name }]))[0]!.id
        const kept = externalKeys.keep(config)
        const credentialValues = [config.externalId, kept.lookup, kept.masterKeyId]
        const texts = [name, foldedName(name), clientCert, caCert]
        const secrets = [encrypted(thing, 'content', content), encrypted(thing, 'client_key', clientKey)]
        await write.query(parts.keepsPrivateKeys ? insertSql : `WITH erased AS (${eraseSql(erasedMax)}) ${insertSql}`, [
          thing,
          by.user,
          ...credentialValues,
          ...texts,
          ...secrets,
          channelSet,
          state,
        ])
        write.note('bootstrap.create', [thing])
        return thing
      })
      return isMade.catch(refuseTaken)
    },

    demandFree: (owner, credential) => demandFree(database, owner, credential),

    async find(owner, thing) {
      const [row] = await database.query<BootstrapConfigRow>(`${ownSql} AND configs.thing = $2`, [owner, thing])
      return row === undefined ? undefined : { config: toBootstrapConfig(row), version: row.version }
    },

    exists,

    async list(owner, { state, externalId, thing, key, name }, page) {
      const filters: [sql: (parameter: string) => string, value: SqlValue | undefined][] = [
        [parameter => `configs.state = ${parameter}`, state],
        [parameter => `configs.external_id = ${parameter}`, externalId],
        [parameter => `configs.thing = ${parameter}`, thing],
        [parameter => `things.${keptSql(parameter)}`, key && thingKeys.lookups(key).map(lookup => lookup.toString('hex'))],
        [parameter => `0 < strpos(configs.name_folded, ${parameter})`, name && foldedName(name)],
      ]
      const usedFilters = filters.filter(([, value]) => value !== undefined)
      const conditions = usedFilters.map(([sql], at) => ` AND ${sql(`$${at + 2}`)}`).join('')
      const values = [owner, ...usedFilters.map(([, value]) => value!), page.offset, page.limit]
      return toPage(
        await database.query<BootstrapConfigRow & { total: bigint }>(pageSql(ownSql + conditions, values.length, page), values),
        toBootstrapConfig,
      )
    },

    async update(by, thing, fields, versions) {
      const { name, content, clientCert, clientKey, caCert, state, isEnabled } = fields
      const channels = fields.channels && [...new Set(fields.channels)]
      return writes(by, async write => {
        const before = await lock(write, thing)
        if (before === undefined) return 'absent'
        if (channels !== undefined && (await lockOwnedChannels(write, channels)).length < channels.length) return 'not-owned'
        if (versions?.includes(before.version) === false) return 'changed-since'
        const texts = [name, name === undefined ? name : foldedName(name), clientCert, caCert].map(text => text ?? null)
        const contentValues = [content !== undefined, encrypted(thing, 'content', content)]
        const clientKeyValues = [clientKey !== undefined, encrypted(thing, 'client_key', clientKey)]
        const wanted = [channels ?? null, state ?? null, isEnabled ?? null]
        const [after] = await write.query<StateRow>(updateSql, [thing, ...texts, ...contentValues, ...clientKeyValues, ...wanted])
        await updateConnections(write, thing, before, after!, state !== undefined)
        if (after!.is_enabled === before.is_enabled) write.note('bootstrap.update', [thing])
        else write.note(after!.is_enabled ? 'bootstrap.enable' : 'bootstrap.disable', [thing])
        return { version: after!.version }
      })
    },

    async remove(by, thing, versions) {
      return writes(by, async write => {
        const before = await lock(write, thing)
        if (before === undefined) return 'absent'
        if (versions?.includes(before.version) === false) return 'changed-since'
        await write.query('DELETE FROM control_plane.bootstrap_configs WHERE thing = $1', [thing])
        write.note('bootstrap.delete', [thing])
        return { version: before.version }
      })
    },

    async open(credential) {
      const [row] = await database.query<OpenRow>(openSql, [externalKeys.lookups(credential), parts.keepsPrivateKeys])
      if (row === undefined) return undefined
      await externalKeys.renew(database, credential, { masterKeyId: row.key_id })
      const config = toBootstrapConfig(row)
      const clientKey = decrypted(row.id, 'client_key', row.client_key)
      const filled: Readonly<Record<string, string | null | undefined>> = {
        'certificate.client_cert': row.client_cert,
        'certificate.client_key': clientKey,
        'certificate.ca_cert': row.ca_cert,
        'thing.key': config.key,
      }
      return {
        ...config,
        owner: row.owner,
        content: config.content?.replaceAll(filledAtFetch, (_, name: string) => JSON.stringify(filled[name] ?? '').slice(1, -1)),
        isAllowed: row.is_allowed,
        clientCert: row.client_cert ?? undefined,
        clientKey,
        caCert: row.ca_cert ?? undefined,
      }
    },

    async eraseOverdue() {
      if (!parts.keepsPrivateKeys) await database.query(eraseSql('ALL'))
    },

    async noteFetch(thing) {
      await database.query(fetchedSql, [thing])
      if (!parts.keepsPrivateKeys) await database.query(eraseSql(erasedMax))
    },

    async acknowledge(by, thing) {
      await writes(by, async write => {
        const erased = await write.query(acknowledgeSql, [thing])
        if (erased.length > 0) write.note('bootstrap.acknowledge', [thing])
      })
    },

    async certify(by, { thing, owner }, request) {
      const onAccount = { ...by, user: owner }
      const [inCrl] = await database.query<{ revoked: number }>(revokedOfThingSql, [thing])
      if (inCrl!.revoked >= replacedMax) throw tooManyReplaced()
      return certificates.issuing(onAccount, [{ ...request, thing }], async ([issued], store) => {
        await writes(by, async write => {
          // Locks the thing first, as a deletion does.
          await store(write)
          const [before] = await write.query<{ client_cert: string | null }>(replacedSql, [thing])
          if (before === undefined) throw new HttpError('forbidden', 'the configuration was disabled or deleted just now')
          const { certificate, issuingCa, serial } = issued!
          const [row] = await write.query<{ replaced: string | null }>(certifySql, [thing, certificate, issuingCa, before.client_cert])
          const replaced = row!.replaced ?? undefined
          if (replaced !== undefined && parts.revokesReplaced) await certificates.revoke(write, thing, replaced)
          write.note('bootstrap.certify', [thing, serial])
        })
        return issued!
      })
    },
  }
}

const tooManyReplaced = (): HttpError =>
  new HttpError(
    'too_many_requests',
    `the CRL already lists ${replacedMax} certificates of this device: keep the current certificate, and retry a week after the first of them expires`,
    { retryAfterSeconds: 86_400 },
  )
const owned = (): HttpError =>
  new HttpError('conflict', 'you already have a bootstrap configuration for this external id or thing: change it instead')

/** @throws the refusal if another request created such a configuration at the same time, otherwise `error` */
function refuseTaken(error: unknown): never {
  if (!(error instanceof DatabaseError) || error.sqlState !== uniqueViolation) throw error
  if (error.constraint === 'bootstrap_configs_key_unique') throw new ExternalKeyTakenError()
  throw error.constraint.startsWith('bootstrap_configs_') ? owned() : error
}
