// Secrets of bootstrap configurations that are kept under the master keys, and their change to another.

import type { Queries, SqlRow } from '../../config/postgres/database.ts'
import { SecretError } from '../../config/secrets.ts'
import { secretRow } from '../bootstrap/store.ts'
import type { ThingId } from '../ids.ts'
import type { SealedTexts } from '../sealed-text.ts'

/** A content has up to 64 KiB, and so has a private key: of both at most 13 MB in hex are one parameter. */
const batchSize = 50

const leftSql = (columns: string): string => `
  SELECT ${columns} FROM control_plane.bootstrap_configs
  WHERE (substring(content FOR 4) <> $1 OR substring(client_key FOR 4) <> $1)`
// Not the version: to its owner and to the device it is the same.
const rewriteSql = `
  UPDATE control_plane.bootstrap_configs AS configs SET content = decode(rewritten.content, 'hex'), client_key = decode(rewritten.client_key, 'hex')
  FROM json_to_recordset($1::json) AS rewritten (thing uuid, content text, client_key text) WHERE configs.thing = rewritten.thing`

type SecretsRow = SqlRow & { thing: ThingId; content: Uint8Array | null; client_key: Uint8Array | null }

/** How many configurations have a secret that is not under the first master key. */
export async function countConfigsLeft(queries: Queries, { masterKeyIds: [first] }: SealedTexts): Promise<number> {
  const [row] = await queries.query<{ configs: bigint }>(leftSql('count(*) AS configs'), [first])
  return Number(row!.configs)
}

/**
 * Writes the secrets of up to `batchSize` configurations under the first master key.
 *
 * @param transaction in which nothing else is changed
 * @returns of how many; 0 where there are no more, but for those that others hold
 * @throws SecretError for one that none of the master keys opens
 */
export async function rewriteConfigs(transaction: Queries, sealed: SealedTexts): Promise<number> {
  const sql = `${leftSql('thing, content, client_key')} LIMIT ${batchSize} FOR UPDATE SKIP LOCKED`
  const rows = await transaction.query<SecretsRow>(sql, [sealed.masterKeyIds[0]])
  const rewritten = rows.map(({ thing, content, client_key: clientKey }) => ({
    thing,
    content: resealed(sealed, secretRow(thing, 'content'), content),
    client_key: resealed(sealed, secretRow(thing, 'client_key'), clientKey),
  }))
  if (rows.length > 0) await transaction.query(rewriteSql, [JSON.stringify(rewritten)])
  return rows.length
}

function resealed(sealed: SealedTexts, row: string, ciphertext: Uint8Array | null): string | null {
  if (ciphertext === null) return null
  try {
    return sealed.seal(row, sealed.open(row, ciphertext)).toString('hex')
  } catch (cause) {
    const remedy = 'give that master key, too, or delete this bootstrap configuration, and repeat this'
    throw new SecretError(`${(cause as Error).message}: ${remedy}`, { cause })
  }
}
