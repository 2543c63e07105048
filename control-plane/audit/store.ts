// The audit log in the database: who changed what, when and from where.
//
// A store notes the line in the transaction of its change (`write.note`): a hook around requests would lose lines when a process is killed.

import type { Database, Queries, SqlRow, SqlValue } from '../../database/database.ts'
import type { UserId } from '../ids.ts'
import type { Relation } from '../policies/policy-store.ts'
import { boundedRows, type Searcher } from '../requests/page.ts'

export const auditActions = [
  ...(['user.register', 'user.update', 'user.change-password', 'user.reset-password', 'user.disable', 'user.enable'] as const),
  ...(['user.bound', 'user.raise'] as const),
  ...(['key.issue', 'key.revoke', 'certificate.issue', 'certificate.renew', 'certificate.revoke'] as const),
  ...(['thing.create', 'thing.update', 'thing.delete', 'thing.rotate-key', 'thing.share', 'thing.unshare'] as const),
  ...(['channel.create', 'channel.update', 'channel.delete', 'connect', 'disconnect'] as const),
  ...([
    'group.create',
    'group.update',
    'group.delete',
    'group.add-members',
    'group.remove-members',
    'group.share',
    'group.unshare',
  ] as const),
  ...([
    'bootstrap.create',
    'bootstrap.update',
    'bootstrap.enable',
    'bootstrap.disable',
    'bootstrap.acknowledge',
    'bootstrap.certify',
    'bootstrap.delete',
    'mapping.create',
    'mapping.delete',
  ] as const),
  ...(['policy.add', 'policy.remove', 'policy.repair', 'secrets.rotate'] as const),
  // Of routes outside the control plane, by `ControlPlane.note`.
  ...(['dead-letters.replay', 'dead-letters.drop', 'messages.erase', 'user.sign-in-by-code'] as const),
  ...(['demo.load', 'demo.writer-kill', 'demo.store-cut', 'demo.poison'] as const),
] as const
export type AuditAction = (typeof auditActions)[number]

/** Who changes something, and from where, for the audit log. */
export interface Actor {
  /** undefined for a registration without sign-in, a device with its external key, and the program itself. */
  readonly user: UserId | undefined
  /** The client's address; undefined for the program itself. */
  readonly address: string | undefined
  /** The id of the request. */
  readonly request: string | undefined
}

export interface AuditEntry {
  /** RFC 3339, in microseconds. */
  readonly at: string
  readonly actor: Actor
  readonly action: AuditAction
  /** What was changed, in the order of the request: ids, `users`, `authorities`, `*`; of dead letters the selection. */
  readonly objects: readonly string[]
  /** What was added or removed. */
  readonly relations: readonly string[]
}

export interface AuditFilter {
  /** The id of the user who did it. */
  readonly actor?: string | undefined
  /** What it happened to. */
  readonly object?: string | undefined
  readonly action?: AuditAction | undefined
  /** RFC 3339, inclusive. */
  readonly from?: string | undefined
  /** RFC 3339, exclusive. */
  readonly to?: string | undefined
}

export interface AuditPage {
  /** How many match; at most `countedMax` of them are counted. */
  readonly total: number
  readonly items: readonly AuditEntry[]
}

export interface AuditLog {
  /** Call it in the transaction of the change, so that there is no change without its line and no line without its change. */
  add(transaction: Queries, by: Actor, action: AuditAction, objects: readonly string[], relations?: readonly Relation[]): Promise<void>
  /** The newest first. */
  list(filter: AuditFilter, page: { readonly offset: number; readonly limit: number }, by: Searcher): Promise<AuditPage>
}

/** Counting stops here: an exact total would read a log of years to its end. */
export const countedMax = 10_000

// Each insert removes two lines that are too old, so that the log shrinks by itself. It skips lines that another insert is removing.
const addSql = `
  WITH old AS (
    SELECT id FROM control_plane.audit WHERE at < now() - make_interval(days => $6::int4) ORDER BY at LIMIT 2 FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM control_plane.audit USING old WHERE audit.id = old.id
  )
  INSERT INTO control_plane.audit (actor, address, request, action, objects, relations)
  VALUES ($1, $2, $3, $4, $5::text[], $7::text[])`

/**
 * The lines that match, as `matching`, and the values. The statement contains only the given filters, so that a cached plan fits every request with the same filters.
 * With an object, lines are found before they are sorted: a scan from the newest on might read the whole log for a few.
 */
function matchingSql({ actor, object, action, from, to }: AuditFilter, retentionDays: number): [sql: string, values: SqlValue[]] {
  const filters = (
    [
      ['at >= now() - make_interval(days => $::int4)', retentionDays],
      ['actor = $::uuid', actor],
      ['objects @> ARRAY[$::text]', object],
      ['at >= $::timestamptz', from],
      ['at < $::timestamptz', to],
    ] as const
  ).filter(([, value]) => value !== undefined)
  const conditions = filters.map(([condition], at) => condition.replace('$', `$${at + 1}`))
  // A literal, which is safe because the name is one of ours: a plan shared by all actions would scan all lines for a rare one.
  if (action !== undefined) conditions.push(`action = '${action}'`)
  const materialized = object === undefined ? 'NOT MATERIALIZED' : 'MATERIALIZED'
  const sql = `WITH matching AS ${materialized} (SELECT * FROM control_plane.audit WHERE ${conditions.join(' AND ')})`
  return [sql, filters.map(([, value]) => value!)]
}

const advice = 'narrow the list by from and to'

const countSql = `SELECT count(*) AS total FROM (SELECT FROM matching ORDER BY matching.at DESC LIMIT ${countedMax}) AS counted`
const pageSql = (values: number) => `
  SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at, actor, address, request, action, objects, relations
  FROM matching ORDER BY matching.at DESC, id DESC OFFSET $${values + 1} LIMIT $${values + 2}`

type EntryRow = SqlRow & {
  at: string
  actor: UserId | null
  address: string | null
  request: string | null
  action: AuditAction
  objects: string[]
  relations: string[]
}

/** @param retentionDays older lines are no longer shown, and are removed over time */
export function openAuditLog(database: Database, { retentionDays }: { readonly retentionDays: number }): AuditLog {
  return {
    async add(transaction, by, action, objects, relations = []) {
      const who: SqlValue[] = [by.user ?? null, by.address ?? null, by.request ?? null]
      await transaction.query(addSql, [...who, action, objects, retentionDays, relations])
    },

    async list(filter, { offset, limit }, by) {
      const [matching, values] = matchingSql(filter, retentionDays)
      const [counted] = await boundedRows<{ total: bigint }>(database, by, advice, `${matching} ${countSql}`, values)
      const rows = await boundedRows<EntryRow>(database, by, advice, matching + pageSql(values.length), [...values, offset, limit])
      return { total: Number(counted?.total ?? 0), items: rows.map(toEntry) }
    },
  }
}

function toEntry({ at, actor, address, request, action, objects, relations }: EntryRow): AuditEntry {
  const by = { user: actor ?? undefined, address: address ?? undefined, request: request ?? undefined }
  return { at, actor: by, action, objects, relations }
}
