// HTTP requests of an operator and a device: the few that tests of the whole platform need.

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The parsed body; undefined if it is not JSON. */
  readonly json: Record<string, unknown> | undefined
}

export interface CallOptions {
  readonly authorization?: string
  readonly type?: string
  readonly body?: string | Uint8Array<ArrayBuffer> | object
  readonly headers?: Readonly<Record<string, string>>
  /** A successful answer never ends: only its head is read. */
  readonly isEndless?: boolean
}

export async function call(base: string, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
  const headers: Record<string, string> = { ...options.headers }
  if (options.authorization !== undefined) headers.authorization = options.authorization
  const { body } = options
  const bytes = body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  if (bytes !== undefined) headers['content-type'] = options.type ?? 'application/json'
  const leaving = new AbortController()
  const response = await fetch(base + path, { method, headers, signal: leaving.signal, ...(bytes === undefined ? {} : { body: bytes }) })
  if (options.isEndless === true && response.ok) {
    leaving.abort()
    return { status: response.status, headers: response.headers, text: '', json: undefined }
  }
  const text = await response.text()
  const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '') && text !== ''
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined }
}

export interface Site {
  /** `Bearer …` of the owner. */
  readonly owner: string
  readonly channel: string
  readonly thing: string
  /** `Thing …` of the device. */
  readonly device: string
}

let serial = 0

interface Credentials {
  readonly email: string
  readonly password: string
}

/** A new user with one thing connected to one channel. @param administrator who creates the user; otherwise they register themselves */
export async function makeSite(base: string, administrator?: Credentials): Promise<Site> {
  const credentials = { email: `owner-${process.pid}-${Date.now()}-${serial++}@sluice.example`, password: 'correct horse battery' }
  const by = administrator === undefined ? {} : { authorization: await signIn(base, administrator) }
  await expectStatus(call(base, 'POST', '/users', { ...by, body: credentials }), 201)
  return makeSiteOf(base, credentials)
}

/** @returns `Bearer …` */
async function signIn(base: string, credentials: Credentials): Promise<string> {
  const token = await expectStatus(call(base, 'POST', '/tokens', { body: credentials }), 201)
  return `Bearer ${String(token.json?.token)}`
}

/** The same for a user that exists. */
export async function makeSiteOf(base: string, credentials: Credentials): Promise<Site> {
  const owner = await signIn(base, credentials)
  const things = await expectStatus(call(base, 'POST', '/things/bulk', { authorization: owner, body: [{ name: 'sensor' }] }), 201)
  const channels = await expectStatus(call(base, 'POST', '/channels/bulk', { authorization: owner, body: [{ name: 'site' }] }), 201)
  const [thing] = things.json!.things as [{ id: string; key: string }]
  const [channel] = channels.json!.channels as [{ id: string }]
  await expectStatus(
    call(base, 'POST', '/connect', { authorization: owner, body: { channel_ids: [channel.id], thing_ids: [thing.id] } }),
    200,
  )
  return { owner, channel: channel.id, thing: thing.id, device: `Thing ${thing.key}` }
}

/** Publishes one pack as the site's device. */
export function publish(base: string, site: Site, pack: object | string, subtopic = ''): Promise<Answer> {
  const path = `/channels/${site.channel}/messages${subtopic === '' ? '' : `/${subtopic}`}`
  return call(base, 'POST', path, { authorization: site.device, type: 'application/senml+json', body: pack })
}

/** Every record of the site's channel, read by its owner, newest first. */
export async function readAll(base: string, site: Site): Promise<Record<string, unknown>[]> {
  const records: Record<string, unknown>[] = []
  for (;;) {
    const path = `/channels/${site.channel}/messages?limit=1000&offset=${records.length}`
    const page = await expectStatus(call(base, 'GET', path, { authorization: site.owner }), 200)
    const messages = page.json?.messages as Record<string, unknown>[]
    records.push(...messages)
    if (messages.length < 1000) return records
  }
}

/** Reads until there are at least `count` records; the writer stores them within its batch's age. */
export async function readUntil(base: string, site: Site, count: number): Promise<Record<string, unknown>[]> {
  for (;;) {
    const records = await readAll(base, site)
    if (records.length >= count) return records
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

export async function expectStatus(answer: Promise<Answer>, status: number): Promise<Answer> {
  const got = await answer
  if (got.status !== status) throw new Error(`expected ${status}, got ${got.status}: ${got.text}`)
  return got
}
