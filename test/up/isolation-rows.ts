// The routes of `sluice up` besides the control plane's, as rows of the isolation matrix: messages, administration, and open routes.

import { expect } from 'vitest'
import { type At, isAdministrator, isOwner, mayRead, type Row, seesChannel, text } from '../control-plane/isolation/row.ts'
import { callers, type Site } from '../control-plane/isolation/world.ts'
import { absentId } from '../control-plane/platform.ts'

/** What was published to a site's channel before the requests, by its thing and then by its left thing. */
export interface Published {
  /** Id of a stored message. */
  readonly good: string
  /** Id of a dead letter. */
  readonly bad: string
}

const channel = ({ site }: At) => ({ parameters: { channel: site.channel } })
const senml = 'application/senml+json'

/** Who sees the channel gets both things' records, the connected thing its own: newest first. */
function publishersOf({ caller, site }: At): string[] {
  return seesChannel.includes(caller) ? [site.leftThing.id, site.thing.id] : [site.thing.id]
}

function recordsOf(at: At, fields: object = {}): unknown[] {
  return publishersOf(at).map(
    publisher => expect.objectContaining({ Channel: at.site.channel, Publisher: publisher, ...fields }) as unknown,
  )
}

const sized = (length: number) => expect.toSatisfy((items: readonly unknown[]) => items.length === length) as unknown

const reading = { takes: 'both', allowed: [...seesChannel, 'connectedThing'], status: 200 } as const
const publishing = {
  takes: 'keys',
  allowed: ['connectedThing', 'ownerKey', 'publishKey', 'channelKey'],
  status: 202,
  changes: 'more',
  answer: () => ({ id: text }),
} as const

export const messageRows: readonly Row[] = [
  {
    ...reading,
    route: 'GET /channels/{channel}/messages',
    request: at => channel(at),
    answer: at => expect.objectContaining({ total: publishersOf(at).length, format: 'messages', messages: recordsOf(at, { Name: 'a' }) }),
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/messages',
    what: 'of a format',
    request: at => ({ ...channel(at), query: { format: 'weather' } }),
    answer: at => expect.objectContaining({ total: publishersOf(at).length, format: 'weather', messages: recordsOf(at) }),
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/messages',
    what: 'of the thing that left',
    request: at => ({ ...channel(at), query: { publisher: at.site.leftThing.id } }),
    answer: at => expect.objectContaining({ total: publishersOf(at).length - 1 }),
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/messages',
    what: 'the latest of each',
    request: at => ({ ...channel(at), query: { latest: 'true' } }),
    answer: at => expect.objectContaining({ messages: recordsOf(at) }),
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/messages',
    what: 'aggregated',
    request: at => ({ ...channel(at), query: { aggregation: 'count', interval: '1d' } }),
    answer: at => expect.objectContaining({ messages: sized(publishersOf(at).length) }),
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/messages',
    what: 'as CSV',
    request: at => ({ ...channel(at), headers: { accept: 'text/csv' } }),
    // Below the column names.
    answer: at => expect.toSatisfy((csv: string) => csv.trimEnd().split('\n').length === 1 + publishersOf(at).length),
  },
  {
    ...reading,
    route: 'GET /messages',
    request: ({ site }) => ({ query: { channel: site.channel } }),
    answer: at => expect.objectContaining({ total: publishersOf(at).length, messages: recordsOf(at, { Name: 'a' }) }),
  },
  {
    ...reading,
    route: 'GET /messages',
    what: 'of both channels',
    allowed: [...isOwner, 'readKey'],
    request: ({ site }) => ({ query: { channel: [site.otherChannel, site.channel] } }),
    answer: at => expect.objectContaining({ total: publishersOf(at).length, messages: recordsOf(at, { Name: 'a' }) }),
  },
  {
    ...reading,
    route: 'GET /messages',
    what: "of an own channel and another user's",
    allowed: [],
    request: ({ site, world }) => ({ query: { channel: [site.channel, world.foreign.channel], latest: 'true' } }),
    answer: () => '',
  },
  {
    ...reading,
    route: 'GET /messages',
    what: 'of an own channel and an absent one',
    allowed: [],
    request: ({ site }) => ({ query: { channel: [absentId, site.channel], limit: 'all' } }),
    answer: () => '',
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/messages/stream',
    isStream: true,
    request: at => ({ ...channel(at), headers: { accept: 'text/event-stream' } }),
    answer: () => '',
  },
  {
    ...reading,
    route: 'GET /channels/{channel}/formats',
    request: at => channel(at),
    // The left thing has its own format.
    answer: at => expect.objectContaining({ formats: sized(1 + publishersOf(at).length) }),
  },
  {
    ...publishing,
    route: 'POST /channels/{channel}/messages',
    request: at => ({ ...channel(at), type: senml, body: [{ n: 'b', v: 2 }] }),
  },
  {
    ...publishing,
    route: 'POST /channels/{channel}/messages',
    what: 'many',
    request: at => ({
      ...channel(at),
      type: 'application/x-ndjson',
      body: '{"payload":[{"n":"b","v":2}]}\n{"subtopic":"weather","payload":{"tmp":3}}',
    }),
    answer: () => ({ ids: [text, text] }),
  },
  {
    ...publishing,
    route: 'POST /channels/{channel}/messages/{subtopic}',
    request: ({ site }) => ({ parameters: { channel: site.channel, subtopic: 'roof/weather' }, body: { tmp: 3 } }),
  },
]

const broker = { takes: 'tokens', allowed: callers } as const

/** The platform of these tests has no `mqtt.brokers`, so all are refused, whatever the device. */
export const brokerRows: readonly Row[] = [
  {
    ...broker,
    route: 'POST /brokers/emqx/authenticate',
    status: 200,
    request: ({ site }) => ({ body: { username: site.thing.id, password: site.thing.key } }),
    answer: () => ({ result: 'deny' }),
  },
  {
    ...broker,
    route: 'POST /brokers/emqx/authorize',
    status: 200,
    request: ({ site }) => ({ body: { username: site.thing.id, topic: `channels/${site.channel}/messages`, action: 'publish' } }),
    answer: () => ({ result: 'deny' }),
  },
  {
    ...broker,
    route: 'POST /brokers/mosquitto/user',
    status: 403,
    request: ({ site }) => ({ body: { username: site.thing.id, password: site.thing.key } }),
    answer: () => '',
  },
  { ...broker, route: 'POST /brokers/mosquitto/superuser', status: 403, request: () => ({ body: {} }), answer: () => '' },
  {
    ...broker,
    route: 'POST /brokers/mosquitto/acl',
    status: 403,
    request: ({ site }) => ({ body: { username: site.thing.id, topic: `channels/${site.channel}/messages`, acc: 2 } }),
    answer: () => '',
  },
]

const tool = { takes: 'tokens', allowed: isAdministrator, status: 200 } as const
/** Matches no letter, so nothing is replayed or dropped. */
const noLetter = { body: { rule: 'no such rule' } }
const nothingDropped = () => expect.objectContaining({ dropped: 0 }) as unknown

export function toolRows(published: (site: Site) => Published): Row[] {
  return [
    {
      ...tool,
      route: 'GET /admin/dead-letters',
      request: () => ({}),
      answer: ({ site }) => expect.objectContaining({ letters: expect.arrayContaining([letterOf(published(site).bad)]) as unknown }),
    },
    {
      ...tool,
      route: 'GET /admin/dead-letters/export',
      request: () => ({}),
      answer: ({ site }) => expect.stringContaining(`"id":"${published(site).bad}"`),
    },
    {
      ...tool,
      route: 'GET /admin/dead-letters/{id}',
      request: ({ site }) => ({ parameters: { id: published(site).bad } }),
      answer: ({ site }) => ({ letters: [letterOf(published(site).bad)] }),
    },
    {
      ...tool,
      status: 202,
      route: 'POST /admin/dead-letters/replay',
      request: () => noLetter,
      answer: () => expect.objectContaining({ job: expect.any(Number) as unknown }),
    },
    {
      ...tool,
      route: 'GET /admin/dead-letters/replay',
      request: () => ({}),
      answer: () => expect.objectContaining({ job: expect.any(Number) as unknown }),
    },
    { ...tool, route: 'POST /admin/dead-letters/drop', request: () => noLetter, answer: nothingDropped },
    {
      ...tool,
      status: 202,
      route: 'POST /admin/erase',
      request: () => ({ body: { publisher: 'nobody', dry_run: false } }),
      answer: () => expect.objectContaining({ job: expect.any(Number) as unknown }),
    },
    {
      ...tool,
      route: 'GET /admin/erase',
      request: () => ({}),
      answer: () => expect.objectContaining({ job: expect.any(Number) as unknown }),
    },
    { ...tool, route: 'GET /admin/erasures', request: () => ({}), answer: () => ({ erasures: expect.any(Array) as unknown }) },
    { ...tool, route: 'GET /admin/verify', request: () => ({}), answer: () => expect.objectContaining({ holds: true }) },
    {
      ...tool,
      route: 'GET /admin/messages/{id}/trace',
      request: ({ site }) => ({ parameters: { id: published(site).good } }),
      answer: ({ site }) => expect.objectContaining({ id: published(site).good, state: 'stored' }),
    },
  ]
}

const letterOf = (id: string) => expect.objectContaining({ id, state: 'open', rule: 'one-value' }) as unknown

const open = { takes: 'tokens', allowed: callers, status: 200, request: () => ({}) } as const
const passes = () => expect.objectContaining({ status: 'pass' }) as unknown

const stream = { takes: 'tokens', status: 200, isStream: true, answer: () => '' } as const
const demo = {
  ...tool,
  answer: () => expect.objectContaining({ writer: text, load: expect.objectContaining({ devices: 100 }) as unknown }),
}

/** Those of the console, with `--demo`. The store is cut last, since nothing is stored for a while after it. */
export const consoleRows: readonly Row[] = [
  { ...stream, route: 'GET /console/overview/stream', allowed: isAdministrator, request: () => ({}) },
  {
    ...stream,
    route: 'GET /console/things/{thing}/arrivals/stream',
    allowed: mayRead,
    request: ({ site }) => ({ parameters: { thing: site.thing.id } }),
  },
  { ...open, route: 'POST /console/sign-in', status: 401, request: () => ({ body: { code: 'wrong' } }), answer: () => '' },
  { ...demo, route: 'GET /console/demo', request: () => ({}) },
  { ...demo, route: 'POST /console/demo/load', request: () => ({ body: { is_running: false } }) },
  { ...demo, route: 'POST /console/demo/poison', request: () => ({}), changes: 'more' },
  { ...demo, route: 'POST /console/demo/writer-kill', request: () => ({}) },
  { ...demo, route: 'POST /console/demo/store-cut', request: () => ({}) },
]

export const openRows: readonly Row[] = [
  { ...open, route: 'GET /', answer: () => expect.objectContaining({ links: expect.objectContaining({ docs: '/docs' }) as unknown }) },
  { ...open, route: 'GET /health', answer: passes },
  { ...open, route: 'GET /livez', answer: passes },
  { ...open, route: 'GET /readyz', answer: passes },
  { ...open, route: 'GET /metrics', answer: () => text },
]

/** Routes that are not in the description. */
export const undescribedRows: readonly Row[] = [
  { ...open, route: 'GET /openapi.json', answer: () => expect.objectContaining({ openapi: '3.1.0' }) },
  { ...open, route: 'GET /docs/', answer: () => expect.stringContaining('swagger-ui') },
]
