// A connection of `@platformatic/kafka` to one broker, opened on the first request. Each request has its own time limit: the client
// has only one per connection, but answers to fetches and joins may take long.

import { Connection } from '@platformatic/kafka'
import { type KafkaConnection, platformaticOptions } from '../connection.ts'
import { type Address, BrokerError } from '../consumer/broker.ts'
import { brokerCodes, reasonOf } from '../failure.ts'

export interface Line {
  /** False if it was opened and is now closed. */
  isWhole(): boolean
  /**
   * Sends a request with `call`. If the answer does not arrive in time, the connection is closed.
   *
   * @throws BrokerError, or the error of the connection
   */
  ask<Answer>(timeoutMs: number, call: (connection: Connection) => Promise<Answer>): Promise<Answer>
  end(): void
}

const gone: ReadonlySet<string> = new Set(['closing', 'closed', 'error'])
/** The longest possible timer, so that the client's own time limit never applies. */
const neverMs = 2 ** 31 - 1

export function openLine(to: KafkaConnection, { host, port }: Address): Line {
  let connection: Connection | undefined
  let connecting: Promise<Connection> | undefined
  let ended = false

  async function open(): Promise<Connection> {
    if (ended) throw new Error('the connection was closed')
    connection = new Connection(to.clientId, { ...platformaticOptions(to), requestTimeout: neverMs })
    // Pending requests fail anyway; without a listener the process would crash.
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
    // Does not wait for the broker.
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

/** The broker's first error in the chain, if there is one. */
export function brokerFailure(error: unknown): unknown {
  const [apiCode] = brokerCodes(error)
  return apiCode === undefined ? error : new BrokerError(apiCode, reasonOf(error), { cause: error })
}
