// A connection of `@platformatic/kafka` to one broker, opened for the first request on it. Each request has a time of its own: the client
// has one for all of a connection, and an answer to a fetch or a join may be long in coming.

import type { Connection } from '@platformatic/kafka'
import { type KafkaConnection, platformaticOptions } from '../connection.ts'
import type { Address } from '../consumer/broker.ts'
import { openWireReader, openWireWriter } from '../consumer/wire.ts'
import type { Throttled, WireRequest } from '../consumer/wire-request.ts'
import type { KafkaClient } from '../produce.ts'
import { brokerFailure } from './failure.ts'

export interface Line {
  /** False where it was opened and is gone. */
  isWhole(): boolean
  /**
   * Sends by `call`. A line whose answer did not come in time is ended.
   *
   * @throws BrokerError, or what the connection failed with
   */
  ask<Answer>(timeoutMs: number, call: (connection: Connection) => Promise<Answer>): Promise<Answer>
  end(): void
}

const gone: ReadonlySet<string> = new Set(['closing', 'closed', 'error'])
/** The longest that a timer can wait: the client's own is not to be the first. */
const neverMs = 2 ** 31 - 1

export function openLine({ Connection }: KafkaClient, to: KafkaConnection, { host, port }: Address): Line {
  let connection: Connection | undefined
  let connecting: Promise<Connection> | undefined
  let ended = false

  async function open(): Promise<Connection> {
    if (ended) throw new Error('the connection was given up')
    connection = new Connection(to.clientId, { ...platformaticOptions(to), requestTimeout: neverMs })
    // Whoever waits for an answer is told; without a listener the process would end.
    connection.on('error', () => undefined)
    try {
      await connection.connect(host, port)
    } catch (error) {
      end()
      throw error
    }
    return connection
  }

  function end(): void {
    ended = true
    void connection?.close().catch(() => undefined)
    // Which need not wait for the other side.
    connection?.socket?.destroy()
  }

  return {
    isWhole: () => !ended && (connection === undefined || !gone.has(connection.status)),

    async ask(timeoutMs, call) {
      const late = Promise.withResolvers<never>()
      const timer = setTimeout(() => {
        late.reject(new Error(`the broker ${host}:${port} has not answered for ${timeoutMs} ms`))
        end()
      }, timeoutMs)
      try {
        connecting ??= open()
        return await Promise.race([connecting.then(call), late.promise])
      } catch (error) {
        throw brokerFailure(error)
      } finally {
        clearTimeout(timer)
      }
    },

    end,
  }
}

/** Sends a request of our own. Its answer is read from bytes that lie together: of a fetch, record sets are views into them. */
export function sendOn<Answer>({ Writer }: KafkaClient, connection: Connection, request: WireRequest<Answer>): Promise<Throttled<Answer>> {
  return new Promise((resolve, reject) => {
    connection.send<Throttled<Answer>>(
      request.apiKey,
      request.apiVersion,
      () => Writer.create().append(request.write(openWireWriter()).tags().bytes()),
      (_correlation, _key, _version, reader) => request.read(openWireReader(reader.buffer.slice(reader.position))),
      true,
      true,
      (error, answer) => (answer === undefined || error !== null ? reject(error ?? new Error('no answer')) : resolve(answer)),
    )
  })
}
