// Sends the requests of the isolation matrix: as each caller in turn, with absent ids and another user's in place of the right ones, and with lists that contain one of them.

import type { Database } from '../../../database/database.ts'
import type { Answer } from '../../up/operator.ts'
import { absentId } from '../platform.ts'
import { type Asked, type Named, namedIn, type Row, statusFor, userOf } from './row.ts'
import { type Caller, callers, type Site, type World } from './world.ts'

/** A digest of each table of the control plane, except the audit log and the counts of failures. */
export type Snapshot = () => Promise<Readonly<Record<string, string>>>

export async function openSnapshot(database: Database): Promise<Snapshot> {
  const tables = await database.query<{ name: string }>(`
    SELECT table_name::text AS name FROM information_schema.tables
    WHERE table_schema = 'control_plane' AND table_name NOT IN ('audit', 'failed_attempts') ORDER BY 1`)
  const digest = (name: string): string =>
    `SELECT '${name}' AS name, md5(coalesce(string_agg(held::text, '|' ORDER BY held::text), '')) AS digest FROM control_plane."${name}" AS held`
  const sql = tables.map(({ name }) => digest(name)).join(' UNION ALL ')
  // The ids of transactions that have written so far: while they are the same no table has changed. Saves digests, which take most of the time.
  let [written, digests]: [string, Record<string, string>] = ['', {}]
  return async () => {
    const [row] = await database.query<{ written: string }>('SELECT pg_current_snapshot()::text AS written')
    if (row!.written === written) return digests
    const rows = await database.query<{ name: string; digest: string }>(sql)
    ;[written, digests] = [row!.written, Object.fromEntries(rows.map(({ name, digest }) => [name, digest]))]
    return digests
  }
}

export interface Cell {
  readonly status: number
  readonly body: unknown
  /** undefined without a snapshot. */
  readonly isChanged: boolean | undefined
}

const forbidden = 'failed to perform authorization over the entity'

/** How many requests the matrix has sent, and the ids of those that succeeded, by route. */
export const asked = { cells: 0, succeeded: new Map<string, Set<string>>() }

export async function ask(world: World, row: Row, caller: Caller, request: Asked): Promise<Answer> {
  asked.cells++
  const [method = '', template = ''] = row.route.split(' ')
  const path = template.replace(/\{(\w+)\}/g, (_all, name: string) => request.parameters![name]!)
  const query = request.query === undefined ? '' : `?${new URLSearchParams(pairsOf(request.query)).toString()}`
  const authorization = world.authorization(caller)
  const { body, type, headers } = request
  const answer = await world.asker.call(method, path + query, {
    ...(authorization === undefined ? {} : { authorization }),
    ...(body === undefined ? {} : { body }),
    ...(type === undefined ? {} : { type }),
    ...(headers === undefined ? {} : { headers }),
    ...(row.isStream === true ? { isEndless: true } : {}),
  })
  if (answer.status >= 300) return answer
  const succeeded = asked.succeeded.get(row.route) ?? new Set<string>()
  asked.succeeded.set(row.route, succeeded.add(answer.headers.get('x-request-id')!))
  if (row.endsToken === true) await world.renew(userOf(caller)!)
  return answer
}

function pairsOf(query: NonNullable<Asked['query']>): [string, string][] {
  return Object.entries(query).flatMap(([name, given]) => [given].flat().map((text): [string, string] => [name, text]))
}

/** The answer of each caller, and the expected one. */
export async function askAll(
  world: World,
  row: Row,
  snapshot?: Snapshot,
): Promise<{ got: Record<string, Cell>; wanted: Record<string, Cell> }> {
  const got: Record<string, Cell> = {}
  const wanted: Record<string, Cell> = {}
  const isChanging = (caller: Caller): boolean =>
    statusFor(row, caller) < 300 && row.changes !== undefined && row.unchanged?.includes(caller) !== true
  // Concurrently: creating them takes most of the time.
  const changing = row.changes === 'site' ? callers.filter(isChanging) : []
  const sites = new Map(await Promise.all(changing.map(async caller => [caller, await world.freshSite()] as const)))
  for (const site of [world.site, ...sites.values()]) await row.prepare?.({ world, site, caller: 'owner' })
  let before = await snapshot?.()
  for (const caller of callers) {
    const status = statusFor(row, caller)
    const at = { world, site: sites.get(caller) ?? world.site, caller }
    const answer = await ask(world, row, caller, row.request(at))
    const after = await snapshot?.()
    got[caller] = { status: answer.status, body: bodyOf(answer), isChanged: snapshot && !isSame(before, after) }
    wanted[caller] = {
      status,
      body: status < 300 ? row.answer(at) : refusalOf(status, got[caller].body),
      isChanged: snapshot && isChanging(caller),
    }
    before = after
  }
  return { got, wanted }
}

const isSame = (left: unknown, right: unknown): boolean => JSON.stringify(left) === JSON.stringify(right)
const bodyOf = ({ json, text }: Answer): unknown => json ?? text

/** A 403 has no detail, except for API keys where only tokens are accepted, or their scope is not. */
function refusalOf(status: number, got: unknown): unknown {
  const { detail, request_id: request } = got as { detail?: string; request_id?: unknown }
  if (status === 401) return { error: 'missing or invalid credentials', code: 'unauthenticated', status, detail, request_id: request }
  const isOfKey = /^an API key (with this scope )?is not accepted here/.test(detail ?? '')
  return { error: forbidden, code: 'forbidden', status, ...(isOfKey ? { detail } : {}), request_id: request }
}

/** A request in which one id is replaced by another, and whether that is refused. */
export interface Substitution {
  readonly name: Named
  readonly caller: Caller
  readonly isTolerated: boolean
  readonly requests: Readonly<Record<string, Asked>>
}

/** In hex, if the request wants that. */
const absentOf = (name: Named): string => (name === 'certificate' ? absentId.replaceAll('-', '') : absentId)

const versionHeaders = { 'if-match': '"99"' }

/** Requests of a row with each of its ids replaced: by an absent one and, if that makes a difference, by a stranger's. */
export function substitutionsOf(world: World, row: Row, site: Site): Substitution[] {
  return (['owner', 'administrator'] as const).flatMap(caller => {
    const good = row.request({ world, site, caller })
    return namedIn(world, site)
      .filter(({ id }) => JSON.stringify(good).includes(id))
      .map(({ name, id, foreign }) => {
        const replaced = (by: string): Asked => JSON.parse(JSON.stringify(good).replaceAll(id, by)) as Asked
        const own = caller === 'owner' && foreign !== undefined
        return {
          name,
          caller,
          isTolerated: row.tolerates?.includes(name) === true && row.allowed.includes(caller),
          requests: {
            absent: replaced(absentOf(name)),
            ...(own ? { foreign: replaced(foreign) } : {}),
            ...(own && row.isVersioned === true ? { 'foreign, of a version': { ...replaced(foreign), headers: versionHeaders } } : {}),
          },
        }
      })
  })
}

/** The valid request of an allowed caller, with one more id before and after each list of ids in its body. */
export function mixturesOf(world: World, row: Row): { caller: Caller; requests: Record<string, Asked> } {
  const caller = row.allowed.includes('owner') ? 'owner' : 'administrator'
  const { site } = world
  const good = row.request({ world, site, caller })
  const named = namedIn(world, site)
  const requests: Record<string, Asked> = {}
  const fields = typeof good.body === 'object' ? good.body : {}
  for (const [field, list] of Object.entries(fields)) {
    const known = Array.isArray(list) ? named.find(({ id }) => id === list[0]) : undefined
    if (known === undefined || row.tolerates?.includes(known.name) === true) continue
    for (const [what, id] of Object.entries({ absent: absentId, foreign: caller === 'owner' ? known.foreign : undefined })) {
      if (id === undefined) continue
      requests[`${what} before ${field}`] = { ...good, body: { ...fields, [field]: [id, ...(list as string[])] } }
      requests[`${what} behind ${field}`] = { ...good, body: { ...fields, [field]: [...(list as string[]), id] } }
    }
  }
  return { caller, requests }
}

/** Everything that a client can see of an answer, except the parts that differ in every answer. */
export function seenOf({ status, headers, text }: Answer): object {
  const own = new Set(['date', 'x-request-id'])
  const seen = [...headers].filter(([name]) => !own.has(name))
  return { status, headers: Object.fromEntries(seen), body: text.replace(/"request_id":"[^"]*"/, '') }
}
