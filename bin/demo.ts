// `npm run demo`: a user, a channel and three simulated devices on a running platform, one of them over MQTT; prints what was sent and what was read back.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openMqttClient } from './mqtt-client.ts'
import { ToolError } from './streams.ts'

const senml = 'application/senml+json'
/** Publishes over MQTT, if the platform says its address, and it is the same machine. */
const mqttDevice = 'pump'

const usage = `Usage: npm run demo -- [--url http://127.0.0.1:8080] [--packs 8] [--interval-ms 250]

Needs a running platform: npm start (in another terminal).

  --url          where the platform answers       (http://127.0.0.1:8080)
  --packs        packs that each device publishes (8)
  --interval-ms  milliseconds between two rounds  (250)

Where only an administrator creates users, SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD_FILE say who that is.
`

interface Device {
  readonly name: string
  readonly id: string
  readonly key: string
  /** The pack of one round: a real device would read its sensors here. */
  readonly measure: (round: number) => readonly object[]
}

/** The response fields that the demo reads. */
interface Body {
  readonly error?: string
  readonly detail?: string
  readonly token?: string
  readonly id?: string
  readonly links?: { readonly mqtt?: string }
  readonly total?: number
  readonly channels?: readonly { readonly id: string }[]
  readonly things?: readonly { readonly id: string; readonly name: string; readonly key: string }[]
  readonly messages?: readonly Reading[]
}

/** A record as the reader gives it. */
interface Reading {
  readonly Name: string
  readonly Time: number
  readonly Unit?: string
  readonly Value?: number
  readonly StringValue?: string
  readonly BoolValue?: boolean
}

class DemoError extends Error {}

/** A value that fluctuates around `middle`, like weather or a load. */
function wave(middle: number, swing: number, round: number, digits: number): number {
  const value = middle + swing * Math.sin(round / 3) + swing * 0.1 * (Math.random() - 0.5)
  return Number(value.toFixed(digits))
}

const measurements: Readonly<Record<string, (round: number) => readonly object[]>> = {
  'weather-station': round => [
    { bn: 'weather:roof:', bt: Date.now() / 1000, n: 'temperature', u: 'Cel', v: wave(18, 4, round, 1) },
    { n: 'humidity', u: '%RH', v: wave(61, 9, round, 0) },
    { n: 'wind', u: 'm/s', v: wave(5, 2, round, 1) },
  ],
  'energy-meter': round => [
    { bn: 'meter:hall-2:', bt: Date.now() / 1000, n: 'power', u: 'W', v: wave(7400, 900, round, 0) },
    { n: 'voltage', u: 'V', v: wave(230, 1.5, round, 1) },
    { n: 'phase', vs: round % 5 === 0 ? 'unbalanced' : 'balanced' },
  ],
  pump: round => [
    { bn: 'pump:well:', bt: Date.now() / 1000, n: 'running', vb: round % 4 !== 3 },
    { n: 'flow', u: 'm3/s', v: round % 4 === 3 ? 0 : wave(0.012, 0.002, round, 4) },
  ],
}

function client(
  base: string,
): (method: string, path: string, options?: { authorization?: string; type?: string; body?: unknown }) => Promise<Body> {
  return async (method, path, { authorization, type = 'application/json', body } = {}) => {
    const headers: Record<string, string> = {}
    if (authorization !== undefined) headers.authorization = authorization
    if (body !== undefined) headers['content-type'] = type
    let response: Response
    try {
      response = await fetch(base + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    } catch (error) {
      throw new DemoError(`no server answers at ${base}: start the platform with \`npm start\`, or pass its address with --url`, {
        cause: error,
      })
    }
    const text = await response.text()
    const answer = parse(text, base)
    if (response.status >= 400)
      throw new DemoError(`${method} ${path} answered ${response.status}: ${answer.detail ?? answer.error ?? text}`)
    return answer
  }
}

function parse(text: string, base: string): Body {
  try {
    return (text === '' ? {} : JSON.parse(text)) as Body
  } catch (error) {
    throw new DemoError(`the server at ${base} is not the platform: pass the platform's address with --url`, { cause: error })
  }
}

async function demo(base: string, packs: number, intervalMs: number): Promise<void> {
  const call = client(base)
  const email = `demo-${randomBytes(4).toString('hex')}@sluice.example`
  const password = randomBytes(12).toString('base64url')

  const signIn = async (body: { email: string; password: string }): Promise<string> =>
    `Bearer ${(await call('POST', '/tokens', { body })).token!}`
  const { SVC_ADMIN_EMAIL: admin = '', SVC_ADMIN_PASSWORD_FILE: file } = process.env
  const by = file === undefined ? {} : { authorization: await signIn({ email: admin, password: readFileSync(file, 'utf8').trim() }) }

  await call('POST', '/users', { ...by, body: { email, password } })
  const token = await signIn({ email, password })
  console.log(`user      ${email}`)

  const channels = (await call('POST', '/channels/bulk', { authorization: token, body: [{ name: 'demo' }] })).channels!
  const channel = channels[0]!.id
  console.log(`channel   ${channel}`)

  const names = Object.keys(measurements)
  const things = (await call('POST', '/things/bulk', { authorization: token, body: names.map(name => ({ name })) })).things!
  const devices: Device[] = things.map(thing => ({ ...thing, measure: measurements[thing.name]! }))
  for (const device of devices) console.log(`thing     ${device.id} ${device.name}`)
  await call('POST', '/connect', { authorization: token, body: { channel_ids: [channel], thing_ids: devices.map(device => device.id) } })

  const { mqtt } = (await call('GET', '/')).links ?? {}
  const pump = devices.find(({ name }) => name === mqttDevice)!
  // From another machine it may be out of reach.
  const isHere = mqtt !== undefined && new URL(mqtt).hostname === new URL(base).hostname
  const overMqtt = isHere ? await openMqttClient({ url: mqtt, thing: pump.id, key: pump.key }) : undefined

  /** @returns what the platform answers */
  async function publish({ name, key }: Device, pack: readonly object[]): Promise<string> {
    if (overMqtt !== undefined && name === mqttDevice) {
      await overMqtt.publish(`channels/${channel}/messages/${name}`, Buffer.from(JSON.stringify(pack)), senml)
      return 'PUBACK'
    }
    const path = `/channels/${channel}/messages/${name}`
    const { id } = await call('POST', path, { authorization: `Thing ${key}`, type: senml, body: pack })
    return `202 ${id!}`
  }

  let records = 0
  console.log(`\nsent, ${packs} packs from each of ${devices.length} devices`)
  for (let round = 0; round < packs; round++) {
    for (const device of devices) {
      const pack = device.measure(round)
      const answer = await publish(device, pack)
      records += pack.length
      console.log(`  ${answer.padEnd(16)} ${device.name.padEnd(16)} ${JSON.stringify(pack)}`)
    }
    if (round < packs - 1) await new Promise(resolve => setTimeout(resolve, intervalMs))
  }
  await overMqtt?.close()

  const read = (): Promise<Body> => call('GET', `/channels/${channel}/messages?limit=12`, { authorization: token })
  const deadline = Date.now() + 30_000
  let page = await read()
  while (page.total! < records && Date.now() < deadline) {
    await new Promise(resolve => setTimeout(resolve, 50))
    page = await read()
  }
  const { messages, total } = page as { messages: readonly Reading[]; total: number }
  console.log(`\nread back, newest first (${messages.length} of ${total})`)
  for (const { Name, Time, Unit = '', Value, StringValue, BoolValue } of messages) {
    console.log(`  ${new Date(Time * 1000).toISOString()}  ${Name.padEnd(26)} ${String(Value ?? StringValue ?? BoolValue)} ${Unit}`)
  }
  console.log(`\n${records} records sent, ${total} read back${total === records ? ', each exactly once' : ''}`)
  if (total !== records) throw new DemoError(`${records} records were sent, but ${total} were read back within 30 s: see ${base}/health`)
  console.log(`read them again: curl -s -H 'Authorization: ${token}' '${base}/channels/${channel}/messages?limit=5'`)
}

function baseOf(url: string): string {
  if (!URL.canParse(url) || !url.startsWith('http'))
    throw new DemoError(`--url takes an address such as http://127.0.0.1:8080, not ${JSON.stringify(url)}`)
  return url.replace(/\/$/, '')
}

/** At most a thousand packs per device, so that the reader's total is still an exact count. */
function wholeNumber(name: string, text: string, from: number, to: number): number {
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (number >= from && number <= to) return number
  throw new DemoError(`--${name} takes a whole number from ${from} to ${to}, not ${JSON.stringify(text)}`)
}

try {
  const { values } = parseArgs({
    options: {
      url: { type: 'string', default: 'http://127.0.0.1:8080' },
      packs: { type: 'string', default: '8' },
      'interval-ms': { type: 'string', default: '250' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) console.log(usage)
  else
    await demo(
      baseOf(values.url),
      wholeNumber('packs', values.packs, 1, 1000),
      wholeNumber('interval-ms', values['interval-ms'], 0, 60_000),
    )
} catch (error) {
  const misused = error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS')
  if (!misused && !(error instanceof DemoError || error instanceof ToolError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
