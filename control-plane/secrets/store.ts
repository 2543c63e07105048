// The rotation of thing keys, of the certificate authority's key and of the secrets of bootstrap configurations to another master key, and the counts of what is under which key.

import { SecretError } from '../../config/secrets.ts'
import type { Queries, SqlRow } from '../../database/database.ts'
import { secretRow } from '../bootstrap/store.ts'
import type { ThingId } from '../ids.ts'
import type { SealedTexts } from '../sealed-text.ts'
import type { ThingKeys } from '../things/keys.ts'

/** Thing keys under one master key; its id in hexadecimal. */
export interface KeyCount {
  readonly masterKeyId: string
  readonly things: number
}

/** Previous keys in their grace period whose look-ups are made under another master key than the first. */
export interface PreviousKeys {
  readonly things: number
  /** RFC 3339, when the last of them expires; undefined if there are none. */
  readonly until: string | undefined
}

/** A batch locks its rows for tens of milliseconds, and a running instance may want to change one. */
const batchSize = 1_000

const masterKeyId = 'substring(key_ciphertext FOR 4)'

const countSql = `
  SELECT encode(${masterKeyId}, 'hex') AS master_key_id, count(*) AS things FROM control_plane.things GROUP BY 1 ORDER BY 1`

const isLeftSql = `SELECT EXISTS (SELECT FROM control_plane.things WHERE ${masterKeyId} <> $1) AS is_left`

// SKIP LOCKED cannot deadlock; a later pass takes the rows that another transaction has locked.
const batchSql = `
  SELECT id, key_ciphertext FROM control_plane.things WHERE ($1::uuid IS NULL OR id > $1) AND ${masterKeyId} <> $2
  ORDER BY id LIMIT ${batchSize} FOR UPDATE SKIP LOCKED`

// Keeps the version: the thing is unchanged, and so is its ETag.
const rewriteSql = `
  UPDATE control_plane.things SET key_ciphertext = decode(ciphertext, 'hex'), key_lookup = decode(lookup, 'hex')
  FROM json_to_recordset($1::json) AS rewritten (thing uuid, ciphertext text, lookup text) WHERE things.id = rewritten.thing`

const previousSql = `
  SELECT count(*) AS things, to_char(max(previous_key_ends_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS until
  FROM control_plane.things WHERE previous_key_ends_at > now() AND previous_key_id IS DISTINCT FROM $1`

const authoritySql = `SELECT id, key_ciphertext FROM control_plane.certificate_authority WHERE ${masterKeyId} <> $1`

export async function countByMasterKey(queries: Queries): Promise<KeyCount[]> {
  const rows = await queries.query<{ master_key_id: string; things: bigint }>(countSql)
  return rows.map(row => ({ masterKeyId: row.master_key_id, things: Number(row.things) }))
}

/** Whether a thing key is not under the first master key. */
export async function isLeft(queries: Queries, { masterKeyIds: [first] }: ThingKeys): Promise<boolean> {
  const [row] = await queries.query<{ is_left: boolean }>(isLeftSql, [first])
  return row!.is_left
}

/**
 * Writes up to `batchSize` thing keys under the first master key, with the look-ups that belong to it.
 *
 * @param transaction that changes nothing else
 * @param after the last thing of the previous batch
 * @returns the things, in the order of their ids; empty if none are left after `after`, except for locked ones
 * @throws SecretError for a thing key that none of the master keys opens
 */
export async function rewriteBatch(transaction: Queries, thingKeys: ThingKeys, after: ThingId | undefined): Promise<ThingId[]> {
  type Row = SqlRow & { id: ThingId; key_ciphertext: Uint8Array }
  const rows = await transaction.query<Row>(batchSql, [after ?? null, thingKeys.masterKeyIds[0]])
  const rewritten = rows.map(({ id, key_ciphertext: before }) => {
    const { ciphertext, lookup } = thingKeys.issue(id, opened(thingKeys, id, before))
    return { thing: id, ciphertext: ciphertext.toString('hex'), lookup: lookup.toString('hex') }
  })
  if (rows.length > 0) await transaction.query(rewriteSql, [JSON.stringify(rewritten)])
  return rows.map(({ id }) => id)
}

function opened(thingKeys: ThingKeys, thing: ThingId, ciphertext: Uint8Array): string {
  const remedy = `also give that master key, or give the thing a new key (PATCH /things/${thing}/key), then run this command again`
  return orRefuse(() => thingKeys.decrypt(thing, ciphertext), remedy)
}

/** @throws SecretError with the remedy, for a secret that no master key opens */
function orRefuse(open: () => string, remedy: string): string {
  try {
    return open()
  } catch (cause) {
    throw new SecretError(`${(cause as Error).message}: ${remedy}`, { cause })
  }
}

/** Whether there is a key of the certificate authority that is not under the first master key. */
export async function isAuthorityLeft(queries: Queries, { masterKeyIds: [first] }: SealedTexts): Promise<boolean> {
  return (await queries.query(authoritySql, [first])).length > 0
}

/**
 * Writes the certificate authority's key under the first master key.
 *
 * @returns whether it was under another
 * @throws SecretError for a key that none of the master keys opens
 */
export async function rewriteAuthority(transaction: Queries, sealed: SealedTexts): Promise<boolean> {
  type Row = SqlRow & { id: string; key_ciphertext: Uint8Array }
  const [row] = await transaction.query<Row>(`${authoritySql} FOR UPDATE`, [sealed.masterKeyIds[0]])
  if (row === undefined) return false
  const key = orRefuse(() => sealed.open(row.id, row.key_ciphertext), 'also give that master key, then run this command again')
  await transaction.query('UPDATE control_plane.certificate_authority SET key_ciphertext = $2 WHERE id = $1', [
    row.id,
    sealed.seal(row.id, key),
  ])
  return true
}

export async function previousKeys(queries: Queries, { masterKeyIds: [first] }: ThingKeys): Promise<PreviousKeys> {
  const [row] = await queries.query<{ things: bigint; until: string | null }>(previousSql, [first])
  return { things: Number(row!.things), until: row!.until ?? undefined }
}

/** A content has up to 64 KiB, and so has a private key: a batch of both is at most 13 MB in hex, as one parameter. */
const bootstrapConfigsAtOnce = 50

const bootstrapConfigsLeftSql = (columns: string): string => `
  SELECT ${columns} FROM control_plane.bootstrap_configs
  WHERE (substring(content FOR 4) <> $1 OR substring(client_key FOR 4) <> $1)`
// Leaves the version as it is: for the owner and the device nothing changes.
const rewriteBootstrapConfigsSql = `
  UPDATE control_plane.bootstrap_configs AS configs SET content = decode(rewritten.content, 'hex'), client_key = decode(rewritten.client_key, 'hex')
  FROM json_to_recordset($1::json) AS rewritten (thing uuid, content text, client_key text) WHERE configs.thing = rewritten.thing`

type SecretsRow = SqlRow & { thing: ThingId; content: Uint8Array | null; client_key: Uint8Array | null }

/** How many configurations have a secret that is not under the first master key. */
export async function countBootstrapConfigsLeft(queries: Queries, { masterKeyIds: [first] }: SealedTexts): Promise<number> {
  const [row] = await queries.query<{ bootstrap_configs: bigint }>(bootstrapConfigsLeftSql('count(*) AS bootstrap_configs'), [first])
  return Number(row!.bootstrap_configs)
}

/**
 * Writes the secrets of up to `bootstrapConfigsAtOnce` configurations under the first master key.
 *
 * @param transaction that changes nothing else
 * @returns how many; 0 if there are no more, except those that other transactions have locked
 * @throws SecretError for one that none of the master keys opens
 */
export async function rewriteBootstrapConfigs(transaction: Queries, sealed: SealedTexts): Promise<number> {
  const sql = `${bootstrapConfigsLeftSql('thing, content, client_key')} LIMIT ${bootstrapConfigsAtOnce} FOR UPDATE SKIP LOCKED`
  const rows = await transaction.query<SecretsRow>(sql, [sealed.masterKeyIds[0]])
  const rewritten = rows.map(({ thing, content, client_key: clientKey }) => ({
    thing,
    content: resealed(sealed, secretRow(thing, 'content'), content),
    client_key: resealed(sealed, secretRow(thing, 'client_key'), clientKey),
  }))
  if (rows.length > 0) await transaction.query(rewriteBootstrapConfigsSql, [JSON.stringify(rewritten)])
  return rows.length
}

function resealed(sealed: SealedTexts, row: string, ciphertext: Uint8Array | null): string | null {
  if (ciphertext === null) return null
  const remedy = 'also give that master key, or delete this bootstrap configuration, then run this command again'
  return sealed
    .seal(
      row,
      orRefuse(() => sealed.open(row, ciphertext), remedy),
    )
    .toString('hex')
}
