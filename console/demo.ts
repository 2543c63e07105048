// `./sluice up --demo`: load, a writer that crashes, a store that is away and messages that cannot be decoded, at the push of a button.
//
// Everything goes the way of devices: through the routes, with thing keys.

import type { FastifySchema } from 'fastify'
import { type Static, type TProperties, type TSchema, Type } from 'typebox'
import type { Logger } from '../config/logger.ts'
import { HttpError } from '../http/errors.ts'
import { bodyCodes, errorAnswers } from '../http/openapi/error-schema.ts'
import type { HttpServer } from '../http/server.ts'
import { type Administration, administratorRoute } from '../pipeline/administration.ts'
import type { WriterState } from '../pipeline/writer/writer.ts'
import type { FailingDatabase } from './failing-database.ts'
import type { RestartingWriter } from './restarting-writer.ts'

export interface DemoParts extends Administration {
  readonly writer: Pick<RestartingWriter, 'state' | 'kill'>
  readonly store: Pick<FailingDatabase, 'failFor' | 'failsUntilMs'>
  readonly logger: Logger
}

const devicesMax = 100
const messagesPerDeviceAndSecond = 1
const tickMs = 100
const outageMs = 10_000
const poisonMax = 1000
const channelName = 'demo'
const deviceName = (nth: number): string => `demo-${String(nth).padStart(3, '0')}`

/** Each violates another rule. */
const poison = ['no JSON', '[{"n":"t","v":1,"vs":"two"}]', '[{"n":"t","v":1,"t":1e11}]', '[{"v":1}]', '[{"n":"t","u":"Cel"}]']

const statusSchema = Type.Object(
  {
    load: Type.Object({
      is_running: Type.Boolean({ examples: [true] }),
      devices: Type.Integer({ examples: [devicesMax] }),
      messages_per_second: Type.Integer({ description: 'Accepted in the last second.', examples: [100] }),
    }),
    writer: Type.Unsafe<WriterState>(Type.Enum(['starting', 'running', 'retrying', 'stopping', 'stopped', 'failed'])),
    store: Type.Object({
      is_cut_until: Type.Union([Type.Number(), Type.Null()], { description: 'Seconds since 1970.', examples: [1_795_360_998.2] }),
    }),
  },
  { title: 'Demo', description: 'What the demonstration does.' },
)

interface Device {
  readonly channel: string
  readonly key: string
}

export function demoRoutes({ writer, store, logger, ...administration }: DemoParts): (app: HttpServer) => Promise<void> {
  return async app => {
    const { onRequest, demand } = administratorRoute(app, administration)
    const load = openLoad(app, logger)
    app.addHook('onClose', async () => load.stop())
    const common = { tags: ['console'], security: [{ user: [] }] }
    const refusals = errorAnswers('unauthenticated', 'forbidden')

    const status = () => ({
      load: { is_running: load.isRunning(), devices: devicesMax, messages_per_second: load.rate() },
      writer: writer.state(),
      store: { is_cut_until: store.failsUntilMs() === undefined ? null : store.failsUntilMs()! / 1000 },
    })

    app.get('/console/demo', {
      onRequest,
      schema: {
        ...common,
        operationId: 'viewDemo',
        summary: 'What the demonstration does now; only with `--demo`, like the other routes below',
        response: { 200: statusSchema, ...refusals },
      },
      async handler(request) {
        await demand(request)
        return status()
      },
    })

    const isRunning = Type.Boolean({ examples: [true] })
    const messages = Type.Integer({ minimum: 1, maximum: poisonMax, default: 10 })
    const bodyOf = <T extends TProperties>(title: string, properties: T) => Type.Object(properties, { title, additionalProperties: false })
    const ofDevices = errorAnswers(...bodyCodes, 'conflict')

    post('load', {
      schema: {
        operationId: 'switchLoad',
        summary: 'Start or stop a hundred simulated devices',
        description: 'They are things of the caller, connected to the channel `demo`; both are created if they do not exist, and stay.',
        body: bodyOf('DemoLoad', { is_running: isRunning }),
        response: ofDevices,
      },
      act: ({ is_running: isOn }, authorization) => (isOn ? load.start(authorization) : load.stop()),
    })
    post('writer-kill', {
      schema: { operationId: 'killWriter', summary: 'End the writer as a crash would; it starts again after two seconds' },
      act: () => writer.kill(),
    })
    post('store-cut', {
      schema: { operationId: 'cutStore', summary: 'Let the connection between the writer and the store fail for ten seconds' },
      act: () => store.failFor(outageMs),
    })
    post('poison', {
      schema: {
        operationId: 'publishPoison',
        summary: 'Publish messages that cannot be decoded',
        body: bodyOf('DemoPoison', { messages }),
        response: ofDevices,
      },
      act: ({ messages }, authorization) => load.publishPoison(authorization, messages),
    })

    function post<Body extends TSchema>(
      path: string,
      {
        schema,
        act,
      }: { schema: FastifySchema & { body?: Body; response?: object }; act: (body: Static<Body>, authorization: string) => unknown },
    ): void {
      app.post(`/console/demo/${path}`, {
        onRequest,
        schema: { ...common, ...schema, response: { 200: statusSchema, ...refusals, ...schema.response } },
        async handler(request) {
          await demand(request)
          await act(request.body as Static<Body>, request.headers.authorization!)
          return status()
        },
      })
    }
  }
}

interface Load {
  isRunning(): boolean
  /** Messages accepted in the last second. */
  rate(): number
  /** @param authorization of the owner of the devices */
  start(authorization: string): Promise<void>
  stop(): void
  publishPoison(authorization: string, messages: number): Promise<void>
}

function openLoad(app: HttpServer, logger: Logger): Load {
  let timer: NodeJS.Timeout | undefined
  let devices: readonly Device[] = []
  let preparing: Promise<readonly Device[]> | undefined
  let round = 0
  let isPublishing = false
  /** Accepted in each of the last ticks, oldest first. */
  const accepted: number[] = []

  /** A request as a client sends it, without a socket. */
  async function ask(method: 'GET' | 'POST', url: string, authorization: string, payload?: object): Promise<Record<string, unknown>> {
    const answer = await app.inject({ method, url, headers: { authorization }, ...(payload === undefined ? {} : { payload }) })
    if (answer.statusCode >= 400)
      throw new HttpError('conflict', `the demonstration cannot be prepared: ${method} ${url} answered ${answer.statusCode}`)
    return answer.body === '' ? {} : answer.json<Record<string, unknown>>()
  }

  async function publish({ channel, key }: Device, payload: string): Promise<boolean> {
    const headers = { authorization: `Thing ${key}`, 'content-type': 'application/senml+json' }
    const { statusCode } = await app.inject({ method: 'POST', url: `/channels/${channel}/messages`, headers, payload })
    return statusCode === 202
  }

  /** One call at a time, so that nothing is created twice. */
  function prepare(authorization: string): Promise<readonly Device[]> {
    preparing ??= devicesOf(authorization).finally(() => (preparing = undefined))
    return preparing
  }

  /** The caller's devices, created if there are none. */
  async function devicesOf(authorization: string): Promise<Device[]> {
    const { channels } = (await ask('GET', `/channels?name=${channelName}&limit=100`, authorization)) as {
      channels: { id: string; name: string }[]
    }
    const known = channels.find(({ name }) => name === channelName)?.id
    const channel =
      known ??
      ((await ask('POST', '/channels/bulk', authorization, [{ name: channelName }])) as { channels: [{ id: string }] }).channels[0].id
    const connected = (await ask('GET', `/channels/${channel}/things?limit=100`, authorization)) as {
      things: { name: string; key: string }[]
    }
    const names = Array.from({ length: devicesMax }, (_, nth) => deviceName(nth + 1))
    const keys = new Map(connected.things.filter(({ name }) => names.includes(name)).map(({ name, key }) => [name, key]))
    const missing = names.filter(name => !keys.has(name))
    if (missing.length > 0) {
      const made = (await ask(
        'POST',
        '/things/bulk',
        authorization,
        missing.map(name => ({ name })),
      )) as { things: { id: string; name: string; key: string }[] }
      await ask('POST', '/connect', authorization, { channel_ids: [channel], thing_ids: made.things.map(({ id }) => id) })
      for (const { name, key } of made.things) keys.set(name, key)
    }
    return names.map(name => ({ channel, key: keys.get(name)! }))
  }

  /** Publishes with a tenth of the devices, unless those before still wait for their answers. */
  async function tick(): Promise<void> {
    if (isPublishing) return
    isPublishing = true
    try {
      const count = await publishNext()
      if (timer === undefined) return
      accepted.push(count)
      if (accepted.length > 1000 / tickMs) accepted.shift()
    } catch (error) {
      logger.warn({ err: error }, 'the demonstration cannot publish')
    } finally {
      isPublishing = false
    }
  }

  async function publishNext(): Promise<number> {
    const ticks = 1000 / tickMs / messagesPerDeviceAndSecond
    const turn = round++ % ticks
    const own = devices.filter((_, nth) => nth % ticks === turn)
    const answers = await Promise.all(own.map((device, nth) => publish(device, measured(nth * ticks + turn, round))))
    return answers.filter(Boolean).length
  }

  function stop(): void {
    clearInterval(timer)
    timer = undefined
    accepted.length = 0
  }

  return {
    isRunning: () => timer !== undefined,
    rate: () => accepted.reduce((sum, count) => sum + count, 0),
    async start(authorization) {
      devices = await prepare(authorization)
      timer ??= setInterval(() => void tick(), tickMs)
    },
    stop,
    async publishPoison(authorization, messages) {
      const [device] = await prepare(authorization)
      const sent = Array.from({ length: messages }, (_, nth) => publish(device!, poison[nth % poison.length]!))
      if ((await Promise.all(sent)).includes(false)) throw new HttpError('conflict', 'ingest refused some of the messages')
    },
  }
}

/** The pack of a weather station: values that go up and down, each in its own rhythm. */
function measured(device: number, round: number): string {
  const phase = device + round / 50
  return JSON.stringify([
    {
      bn: `${deviceName(device + 1)}:`,
      bt: Date.now() / 1000,
      n: 'temperature',
      u: 'Cel',
      v: Number((18 + 4 * Math.sin(phase)).toFixed(1)),
    },
    { n: 'humidity', u: '%RH', v: Math.round(61 + 9 * Math.cos(phase)) },
  ])
}
