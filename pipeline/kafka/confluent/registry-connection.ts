// Asks the schema registry, and says for whom its answers are: whoever asks the next question, or a person.

import { named } from '../../../config/option-variable.ts'
import { LogUnavailableError } from '../../log.ts'
import { SystemicError } from '../../systemic-error.ts'
import { reasonOf } from '../failure.ts'
import type { KafkaLogOptions } from '../options.ts'

/** What of the section `log` says how the registry is reached, and by its topic which subject is ours. */
export type RegistryOptions = Pick<KafkaLogOptions, 'registry' | 'registryUsername' | 'registryPassword' | 'registryTimeoutMs' | 'topic'>

export interface Answer {
  readonly status: number
  /** Undefined where it is no JSON. */
  readonly body: unknown
}

export interface RegistryConnection {
  /** For sentences, without what its URL may hold besides. */
  readonly name: string
  /** Without a slash at its end. */
  readonly host: string
  readonly login: { readonly username: string; readonly password: string } | undefined
  readonly timeoutMs: number
  /**
   * Asks for a path below the host, and resolves with whatever the answer is but a 401.
   *
   * @throws LogUnavailableError where there is none in time, SystemicError for a 401, and the signal's reason when it aborts
   */
  get(path: string, signal: AbortSignal): Promise<Answer>
  /** The error of a registry that gave no answer one can go by. */
  away(reason: string, cause?: unknown): LogUnavailableError
  /** The error of one that refuses this user as such. @param answer its status, and of what if need be */
  notLetIn(answer: string): SystemicError
}

/** Connects when it is first asked. The options have passed `kafkaFaults`. */
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
    return new LogUnavailableError(`${name} cannot be asked (${reason}): look at it, and at log.registry`, { cause })
  }

  function notLetIn(answer: string): SystemicError {
    return new SystemicError(
      `${name} does not let this process in (${answer}): correct ${named('log.registry_username')} and ${named('log.registry_password')}`,
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
