// Times single requests to the control plane, alternately in a site with few things and in one with many.

import { setImmediate } from 'node:timers/promises'
import { openRelationalPolicies } from '../../control-plane/policies/relational.ts'
import { channelAt, firstBlockOf, groupMembers, isInGroup, ownerAt, ownerOfThing, thingAt } from '../../test/control-plane/population.ts'
import { median } from '../median-time.ts'
import { askedOwners, askedThings, type Site } from './site.ts'

export interface AccessRequest {
  readonly name: string
  /** Limit of the median. */
  readonly msMax: number
  /** Whether both sites return the same amount of data, so that the ratio shows the cost of the other rows. */
  readonly isAlike: boolean
}

export interface Asked extends AccessRequest {
  /** Medians in milliseconds. */
  readonly small: number
  readonly large: number
}

interface Asking extends AccessRequest {
  /** Prepares a site: the returned function sends the request of round `nth`, and throws for an unexpected answer. */
  prepare(site: Site): Promise<(nth: number) => Promise<void>>
}

const ordinary = { msMax: 5, isAlike: true }
const largestLimits = { msMax: 50, isAlike: false }
const warmUp = 20

/** The ordinary owner of a round. */
const askedOwner = (nth: number): number => 1 + (nth % askedOwners)

async function get(site: Site, path: string, authorization: string, body?: object): Promise<Record<string, unknown>> {
  const asked = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const headers = { authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
  const answer = await fetch(site.url + path, { ...asked, headers })
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Record<string, unknown>
}

/** A GET that returns a page, which must not be empty. */
function page(
  name: string,
  limits: { msMax: number; isAlike: boolean },
  owner: (nth: number) => number,
  request: (nth: number, owner: number, site: Site) => { path: string; body?: object },
): Asking {
  return {
    name,
    ...limits,
    async prepare(site) {
      const tokens = await Promise.all(Array.from({ length: askedOwners + 1 }, (_, nth) => site.authorizationOf(nth)))
      return async nth => {
        const by = owner(nth)
        const { path, body } = request(nth, by, site)
        const answer = await get(site, path, tokens[by]!, body)
        if (!(Number(answer['total']) > 0)) throw new Error(`${path} found nothing`)
      }
    },
  }
}

const view: Asking = {
  name: 'GET /things/<id>, by a right of a group',
  ...ordinary,
  async prepare(site) {
    const { population } = site
    const things = askedThings(population).filter(nth => isInGroup(nth) && ownerOfThing(population, nth) > 0)
    const reader = (thing: number, nth: number): number => (ownerOfThing(population, thing) + 1 + (nth % groupMembers)) % population.owners
    const tokens = await Promise.all(Array.from({ length: askedOwners + groupMembers + 1 }, (_, nth) => site.authorizationOf(nth)))
    return async nth => {
      const thing = things[(nth * 7919) % things.length]!
      await get(site, `/things/${thingAt(thing)}`, tokens[reader(thing, nth)]!)
    }
  },
}

function check(name: string, isMember: boolean): Asking {
  return {
    name,
    ...ordinary,
    async prepare({ population, database }) {
      const policies = openRelationalPolicies(database)
      return async nth => {
        const thing = ((nth * 7919) % (population.things / 10)) * 10 + 5
        const step = isMember ? 1 + (nth % groupMembers) : groupMembers + 1
        const subject = ownerAt((ownerOfThing(population, thing) + step) % population.owners)
        const isAllowed = await policies.allows(subject, 'write', thingAt(thing))
        if (isAllowed !== isMember) throw new Error(`a check said ${isAllowed}`)
      }
    },
  }
}

const search = (nth: number): { path: string; body: object } => ({
  path: '/things/search',
  body: { metadata: { site: `site-${nth % 97}` } },
})
const named = (nth: number): { path: string } => ({ path: `/things?name=${nth % 10}${nth % 7}` })
const unconnected = (_nth: number, owner: number, site: Site): { path: string } => ({
  path: `/channels/${channelAt(10 * firstBlockOf(site.population, owner))}/things?connected=false`,
})
const largest = (): number => 0

const requests: readonly Asking[] = [
  view,
  page('GET /things', ordinary, askedOwner, () => ({ path: '/things' })),
  page('POST /things/search by metadata', ordinary, askedOwner, search),
  page('GET /things?name=', ordinary, askedOwner, named),
  page('GET /channels/<id>/things?connected=false', ordinary, askedOwner, unconnected),
  page('GET /groups', ordinary, askedOwner, () => ({ path: '/groups' })),
  check('policy check, allowed by two groups', true),
  check('policy check, refused', false),
  page('GET /things, a tenth of all', largestLimits, largest, () => ({ path: '/things' })),
  page('... in the order of names', largestLimits, largest, () => ({ path: '/things?order=name' })),
  page('POST /things/search by metadata, a tenth of all', largestLimits, largest, search),
  page('GET /things?name=, a tenth of all', largestLimits, largest, named),
  page('GET /channels/<id>/things?connected=false, a tenth', largestLimits, largest, unconnected),
  page('GET /groups of the owner of a tenth', largestLimits, largest, () => ({ path: '/groups' })),
]

/** Measures each request in both sites, alternately. */
export async function measureRequests(small: Site, large: Site, rounds: number, progress: (what: string) => void): Promise<Asked[]> {
  const answered: Asked[] = []
  for (const asking of requests) {
    const { name, msMax, isAlike } = asking
    progress(name)
    const [inSmall, inLarge] = [await asking.prepare(small), await asking.prepare(large)]
    const times = { small: [] as number[], large: [] as number[] }
    for (let nth = -warmUp; nth < rounds; nth++) {
      const turn = nth + warmUp
      // The first of a pair finds the processor's caches as the previous pair left them, so they take turns in being first.
      const pair = [() => timed(() => inSmall(turn), times.small, nth), () => timed(() => inLarge(turn), times.large, nth)]
      for (const one of turn % 2 === 0 ? pair : pair.toReversed()) await one()
    }
    answered.push({ name, msMax, isAlike, small: median(times.small), large: median(times.large) })
  }
  return answered
}

async function timed(work: () => Promise<void>, into: number[], nth: number): Promise<void> {
  await setImmediate()
  const startedMs = performance.now()
  await work()
  if (nth >= 0) into.push(performance.now() - startedMs)
}
