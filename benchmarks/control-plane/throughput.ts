// How many GET /things/<id> one process serves, alternating with bare fastify routes that run the same statements over the same pool.

import type { AddressInfo } from 'node:net'
import { fastify } from 'fastify'
import type { SqlValue } from '../../database/database.ts'
import { groupMembers, isInGroup, ownerOfThing, thingAt } from '../../test/control-plane/population.ts'
import { type HttpLoad, httpLoad } from '../http-load.ts'
import { median } from '../median-time.ts'
import { askedThings, type Site } from './site.ts'

export interface LoadOptions {
  readonly turns: number
  readonly seconds: number
  readonly connections: number
}

/** Medians of all turns. */
export interface Throughput {
  readonly name: string
  readonly perSecond: number
  /** CPU time of the answering process for each request. */
  readonly cpuUs: number
  /** Requests/s of the product divided by those of this route, for each turn; 1 for the product itself. */
  readonly ratio: number
}

interface Route {
  readonly name: string
  readonly url: string
  readonly paths: readonly string[]
  close(): Promise<void>
}

/** Number of the calling user, who is a member of the groups of the users with lower numbers. */
const caller = groupMembers + 1

/** Measures the product first: for a right through a group, and for the caller's own thing. */
export async function measureThroughput(site: Site, options: LoadOptions, progress: (what: string) => void): Promise<Throughput[]> {
  const authorization = await site.authorizationOf(caller)
  const pathsOf = (isWanted: (thing: number, owner: number) => boolean): string[] =>
    askedThings(site.population)
      .filter(nth => isWanted(nth, ownerOfThing(site.population, nth)))
      .map(nth => `/things/${thingAt(nth)}`)
  const groupPaths = pathsOf((thing, owner) => isInGroup(thing) && owner > 0 && owner < caller)
  const ownPaths = pathsOf((_thing, owner) => owner === caller)
  const statements = await statementsOf(site, groupPaths[0]!, authorization)
  const routes: readonly Route[] = [
    { name: 'GET /things/<id> with a token, by a right of a group', url: site.url, paths: groupPaths, close: async () => undefined },
    { name: "... of a thing of one's own", url: site.url, paths: ownPaths, close: async () => undefined },
    { ...(await serveBare(site, statements.slice(-1))), name: 'a bare route: the statement that reads the thing', paths: groupPaths },
    { ...(await serveBare(site, statements)), name: `a bare route: all ${statements.length} statements of the first`, paths: groupPaths },
  ]
  const loads = routes.map(() => [] as Load[])
  // The first turn is a warm-up.
  for (let turn = 0; turn <= options.turns; turn++) {
    for (const [at, { name, url, paths }] of routes.entries()) {
      progress(`${name}, turn ${turn} of ${options.turns}`)
      const measured = await load({ ...options, url, paths, headers: { authorization } })
      if (turn > 0) loads[at]!.push(measured)
    }
  }
  await Promise.all(routes.map(route => route.close()))
  return routes.map(({ name }, at) => ({
    name,
    perSecond: median(loads[at]!.map(({ perSecond }) => perSecond)),
    cpuUs: median(loads[at]!.map(({ cpuUs }) => cpuUs)),
    ratio: median(loads[at]!.map(({ perSecond }, turn) => loads[0]![turn]!.perSecond / perSecond)),
  }))
}

interface Statement {
  readonly sql: string
  /** undefined stands for the thing's id. */
  readonly values: readonly (SqlValue | undefined)[]
}

/** The statements that the product sends for one request; the one that reads the thing comes last. */
async function statementsOf(site: Site, path: string, authorization: string): Promise<Statement[]> {
  const id = path.replace('/things/', '')
  const asked = await site.recorded(async () => {
    const answer = await fetch(site.url + path, { headers: { authorization } })
    if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
  })
  return asked.map(({ sql, values }) => ({ sql, values: values.map(value => (value === id ? undefined : value)) }))
}

/** Checks neither the token nor the result: one row of the last statement becomes JSON. */
async function serveBare({ database }: Site, statements: readonly Statement[]): Promise<Pick<Route, 'url' | 'close'>> {
  const app = fastify()
  app.get<{ Params: { thing: string } }>('/things/:thing', async request => {
    let rows: Record<string, SqlValue>[] = []
    for (const { sql, values } of statements)
      rows = await database.query(
        sql,
        values.map(value => value ?? request.params.thing),
      )
    const [{ id, name: thingName, metadata } = {}] = rows
    return { id, name: thingName, key: id, metadata: JSON.parse(metadata as string) as unknown }
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`, close: () => app.close() }
}

interface Load {
  readonly perSecond: number
  readonly cpuUs: number
}

async function load(options: HttpLoad): Promise<Load> {
  const cpu = process.cpuUsage()
  const { perSecond, total } = await httpLoad(options)
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond, cpuUs: (user + system) / total }
}
