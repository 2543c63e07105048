// `./sluice up --demo`: load, a writer that crashes, a store that is away and messages that cannot be decoded, at the push of a button.
//
// Everything goes the way of devices: through the routes, with thing keys.

import type { FastifyRequest, FastifySchema } from 'fastify'
import { Type } from 'typebox'
import type { Logger } from '../config/logger.ts'
import type { FailingDatabase } from '../database/failing-database.ts'
import { HttpError } from '../http/errors.ts'
import { bodyCodes, errorAnswers } from '../http/openapi/error-schema.ts'
import type { HttpServer } from '../http/server.ts'
import { type Administration, administratorRoute, type NotedAction } from '../pipeline/administration.ts'
import type { RestartingWriter } from '../pipeline/writer/restarting-writer.ts'
import type { WriterState } from '../pipeline/writer/writer.ts'

export interface DemoParts extends Administration {
  readonly writer: Pick<RestartingWriter, 'state' | 'kill'>
  readonly store: Pick<FailingDatabase, 'failFor' | 'failsUntilMs'>
  readonly logger: Logger
}

const devicesCount = 100
/** Each device publishes once in this time. */
const roundMs = 1000
const outageMs = 10_000

/** Each violates another rule. */
const poison = ['no JSON', '[{"n":"t","v":1,"vs":"two"}]', '[{"n":"t","v":1,"t":1e11}]', '[{"v":1}]', '[{"n":"t","u":"Cel"}]']

const isRunning = Type.Boolean({ examples: [true] })
const statusSchema = Type.Object(
  {
    load: Type.Object({ is_running: isRunning, devices: Type.Integer({ examples: [devicesCount] }) }),
    writer: Type.Unsafe<WriterState>(Type.Enum(['starting', 'running', 'retrying', 'stopping', 'stopped', 'failed'])),
    store: Type.Object({
      is_cut_until: Type.Union([Type.Number(), Type.Null()], { description: 'Seconds since 1970.', examples: [1_795_360_998.2] }),
    }),
  },
  { title: 'Demo', description: 'What the demonstration does.' },
)

export function demoRoutes({ writer, store, logger, ...administration }: DemoParts): (app: HttpServer) => Promise<void> {
  return async app => {
    const { onRequest, demand, note } = administratorRoute(app, administration)
    const load = openLoad(app, logger)
    app.addHook('onClose', () => load.stop())

    const view = { operationId: 'viewDemo', summary: 'What the demonstration does now; only with `--demo`, like the other routes below' }
    route('GET', '', view, undefined, () => undefined)
    const switched = {
      operationId: 'switchLoad',
      summary: 'Start or stop a hundred simulated devices',
      description: 'They are things of the caller on a channel `demo`, which are created at the first start and stay.',
      body: Type.Object({ is_running: isRunning }, { title: 'DemoLoad', additionalProperties: false }),
    }
    route('POST', '/load', switched, 'demo.load', ({ body, headers }) =>
      (body as { is_running: boolean }).is_running ? load.start(headers.authorization!) : load.stop(),
    )
    const kill = { operationId: 'killWriter', summary: 'End the writer as a crash would; it starts again after two seconds' }
    route('POST', '/writer-kill', kill, 'demo.writer-kill', () => writer.kill())
    const outage = { operationId: 'cutStore', summary: 'Let the connection between the writer and the store fail for ten seconds' }
    route('POST', '/store-cut', outage, 'demo.store-cut', () => store.failFor(outageMs))
    const publish = { operationId: 'publishPoison', summary: 'Publish messages that cannot be decoded' }
    route('POST', '/poison', publish, 'demo.poison', ({ headers }) => load.publishPoison(headers.authorization!))

    function route(
      method: 'GET' | 'POST',
      path: string,
      schema: FastifySchema,
      action: NotedAction | undefined,
      act: (request: FastifyRequest) => unknown,
    ): void {
      const refusals = errorAnswers('unauthenticated', 'forbidden', ...(method === 'GET' ? [] : ([...bodyCodes, 'conflict'] as const)))
      app.route({
        method,
        url: `/console/demo${path}`,
        onRequest,
        schema: { tags: ['console'], security: [{ user: [] }], ...schema, response: { 200: statusSchema, ...refusals } },
        async handler(request) {
          await demand(request)
          if (action !== undefined) await note(request, action)
          await act(request)
          const untilMs = store.failsUntilMs()
          return {
            load: { is_running: load.isRunning(), devices: devicesCount },
            writer: writer.state(),
            store: { is_cut_until: untilMs === undefined ? null : untilMs / 1000 },
          }
        },
      })
    }
  }
}

type Device = Readonly<Record<'name' | 'channel' | 'key', string>>

function openLoad(app: HttpServer, logger: Logger) {
  let timer: NodeJS.Timeout | undefined
  let preparing: Promise<readonly Device[]> | undefined
  let publishing: Promise<unknown> | undefined
  let round = 0

  /** The devices, created once, as things of the first caller. */
  function prepare(authorization: string): Promise<readonly Device[]> {
    preparing ??= makeDevices(authorization).catch((error: unknown) => {
      preparing = undefined
      throw error
    })
    return preparing
  }

  async function makeDevices(authorization: string): Promise<Device[]> {
    const names = Array.from({ length: devicesCount }, (_, nth) => ({ name: `demo-${String(nth + 1).padStart(3, '0')}` }))
    const { channels } = await ask<{ channels: [{ id: string }] }>('/channels/bulk', [{ name: 'demo' }])
    const { things } = await ask<{ things: { id: string; name: string; key: string }[] }>('/things/bulk', names)
    const channel = channels[0].id
    await ask('/connect', { channel_ids: [channel], thing_ids: things.map(({ id }) => id) })
    return things.map(({ name, key }) => ({ name, channel, key }))

    /** A request as a client sends it, without a socket. */
    async function ask<Answer>(url: string, payload: object): Promise<Answer> {
      const answer = await app.inject({ method: 'POST', url, headers: { authorization }, payload })
      if (answer.statusCode >= 400)
        throw new HttpError('conflict', `the demonstration cannot be prepared: POST ${url} answered ${answer.statusCode}`)
      return answer.json<Answer>()
    }
  }

  async function publish({ channel, key }: Device, payload: string): Promise<number> {
    const headers = { authorization: `Thing ${key}`, 'content-type': 'application/senml+json' }
    return (await app.inject({ method: 'POST', url: `/channels/${channel}/messages`, headers, payload })).statusCode
  }

  /** Publishes with each device, unless those before still wait for their answers. */
  function publishRound(devices: readonly Device[]): void {
    round++
    publishing ??= Promise.all(devices.map((device, nth) => publish(device, measured(device.name, nth + round / 50))))
      .then(statuses => {
        const refused = statuses.find(status => [401, 403, 404].includes(status))
        if (refused === undefined) return
        logger.warn(`the demonstration ends, since its devices are refused (${refused}): the next start creates new ones`)
        preparing = undefined
        clearInterval(timer)
        timer = undefined
      })
      .catch((error: unknown) => logger.warn({ err: error }, 'the demonstration cannot publish'))
      .finally(() => (publishing = undefined))
  }

  return {
    isRunning: () => timer !== undefined,
    /** @param authorization of the owner of the devices */
    async start(authorization: string): Promise<void> {
      const devices = await prepare(authorization)
      timer ??= setInterval(() => publishRound(devices), roundMs)
    },
    /** Resolves when all that was published is answered. */
    async stop(): Promise<void> {
      clearInterval(timer)
      timer = undefined
      await publishing
    },
    async publishPoison(authorization: string): Promise<void> {
      const [device] = await prepare(authorization)
      const answers = await Promise.all(poison.map(payload => publish(device!, payload)))
      if (answers.some(status => status !== 202)) throw new HttpError('conflict', 'ingest refused some of the messages')
    },
  }
}

/** The pack of a weather station: values that go up and down, each in its own rhythm. */
function measured(name: string, phase: number): string {
  const temperature = Number((18 + 4 * Math.sin(phase)).toFixed(1))
  return JSON.stringify([
    { bn: `${name}:`, bt: Date.now() / 1000, n: 'temperature', u: 'Cel', v: temperature },
    { n: 'humidity', u: '%RH', v: Math.round(61 + 9 * Math.cos(phase)) },
  ])
}
