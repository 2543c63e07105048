// Sends requests to the schema registry, and classifies failures: to be retried, or to be fixed by an operator.

import { named } from '../../../config/options/variable.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { reasonOf } from '../failure.ts'
import type { KafkaLogOptions } from '../options.ts'

/** The options of the section `log` for the registry; the topic determines our subject. */
export type RegistryOptions = Pick<KafkaLogOptions, 'registry' | 'registryUsername' | 'registryPassword' | 'registryTimeoutMs' | 'topic'>

export interface Answer {
  readonly status: number
  /** Undefined if it is not JSON. */
  readonly body: unknown
}

export interface RegistryConnection {
  /** For messages: the origin of the URL only. */
  readonly name: string
  /** Without a trailing slash. */
  readonly host: string
  readonly login: { readonly username: string; readonly password: string } | undefined
  readonly timeoutMs: number
  /**
   * Requests a path relative to the host, and resolves with any answer except a 401.
   *
   * @throws LogUnavailableError if there is no answer in time, SystemicError for a 401, and the signal's reason if it aborts
   */
  get(path: string, signal: AbortSignal): Promise<Answer>
  /** The error for a registry without a usable answer. */
  away(reason: string, cause?: unknown): LogUnavailableError
  /** The error for a registry that rejects this user altogether. @param answer its status, and for which resource if needed */
  notLetIn(answer: string): SystemicError
}

/** Connects on first use. `kafkaFaults` must have accepted the options. */
export function openConnection(options: RegistryOptions): RegistryConnection {
  const { registry = '', registryUsername: username, registryPassword: password, registryTimeoutMs: timeoutMs } = options
  const host = registry.replace(/\/+$/, '')
  const name = `the schema registry at ${new URL(registry).origin}`
  const login = username === undefined || password === undefined ? undefined : { username, password }
  const headers = {
    accept: 'application/vnd.schemaregistry.v1+json, application/json',
    ...(login === undefined ? {} : { authorization: `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}` }),
  }

  function away(reason: string, cause?: unknown): LogUnavailableError {
    return new LogUnavailableError(`${name} is unavailable (${reason}): check it, and log.registry`, { cause })
  }

  function notLetIn(answer: string): SystemicError {
    return new SystemicError(
      `${name} rejected the credentials of this process (${answer}): correct ${named('log.registry_username')} and ${named('log.registry_password')}`,
    )
  }

  async function get(path: string, signal: AbortSignal): Promise<Answer> {
    let answer: Answer
    try {
      const { request } = await import('undici')
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
      const { statusCode: status, body } = await request(`${host}${path}`, { headers, signal: inTime })
      answer = { status, body: parsed(await body.text()) }
    } catch (error) {
      signal.throwIfAborted()
      throw away(error instanceof Error && error.name === 'TimeoutError' ? `no answer within ${timeoutMs} ms` : reasonOf(error), error)
    }
    if (answer.status === 401) throw notLetIn('401')
    return answer
  }

  return { name, host, login, timeoutMs, get, away, notLetIn }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
