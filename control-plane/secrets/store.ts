// What is kept under the master keys, in the database: thing keys and the certificate authority's, by the key that they are written under, and their change to another.

import type { Queries, SqlRow } from '../../config/postgres/database.ts'
import { SecretError } from '../../config/secrets.ts'
import type { ThingId } from '../ids.ts'
import type { SealedTexts } from '../sealed-text.ts'
import type { ThingKeys } from '../things/keys.ts'

/** Thing keys under one master key; its id in hexadecimal. */
export interface KeyCount {
  readonly masterKeyId: string
  readonly things: number
}

/** Previous keys in their time of grace whose look-ups are made under another master key than the first. */
export interface PreviousKeys {
  readonly things: number
  /** RFC 3339, when the last of them ends; undefined if there are none. */
  readonly until: string | undefined
}

/** A batch locks its rows for tens of milliseconds, and a running instance may want to change one. */
const batchSize = 1_000

const masterKeyId = 'substring(key_ciphertext FOR 4)'

const countSql = `
  SELECT encode(${masterKeyId}, 'hex') AS master_key_id, count(*) AS things FROM control_plane.things GROUP BY 1 ORDER BY 1`

const isLeftSql = `SELECT EXISTS (SELECT FROM control_plane.things WHERE ${masterKeyId} <> $1) AS is_left`

// SKIP LOCKED cannot deadlock; a row that another transaction holds is taken by a later pass.
const batchSql = `
  SELECT id, key_ciphertext FROM control_plane.things WHERE ($1::uuid IS NULL OR id > $1) AND ${masterKeyId} <> $2
  ORDER BY id LIMIT ${batchSize} FOR UPDATE SKIP LOCKED`

// Not the version: the thing reads the same, and so does its ETag.
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
 * @param transaction in which nothing else is changed
 * @param after the last thing of the batch before
 * @returns the things, in the order of their ids; empty if none are left after `after`, except for locked ones
 * @throws SecretError for a thing key that none of the master keys opens
 */
export async function rewriteBatch(transaction: Queries, keys: ThingKeys, after: ThingId | undefined): Promise<ThingId[]> {
  type Row = SqlRow & { id: ThingId; key_ciphertext: Uint8Array }
  const rows = await transaction.query<Row>(batchSql, [after ?? null, keys.masterKeyIds[0]])
  const rewritten = rows.map(({ id, key_ciphertext: before }) => {
    const { ciphertext, lookup } = keys.issue(id, opened(keys, id, before))
    return { thing: id, ciphertext: ciphertext.toString('hex'), lookup: lookup.toString('hex') }
  })
  if (rows.length > 0) await transaction.query(rewriteSql, [JSON.stringify(rewritten)])
  return rows.map(({ id }) => id)
}

function opened(keys: ThingKeys, thing: ThingId, ciphertext: Uint8Array): string {
  const remedy = `give that master key, too, or give the thing a new key (PATCH /things/${thing}/key), and repeat this`
  return orRefuse(() => keys.decrypt(thing, ciphertext), remedy)
}

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
  const key = orRefuse(() => sealed.open(row.id, row.key_ciphertext), 'give that master key, too, and repeat this')
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
