// Reports outages of a process's dependencies: a log line when one starts, every minute while it lasts and when it ends, and a gauge.

import { Gauge, type Registry } from 'prom-client'
import { pause, unlessAborted } from './aborting.ts'
import type { Logger } from './logger.ts'

/** Takes one component's observations of a dependency. The dependency counts as away while any component reports it so. */
export interface OutageReport {
  /**
   * Reports a failure.
   *
   * @param next when it is tried again, and what waits until then: `the start waits for it`. A text that was not yet logged in this outage is
   * logged immediately.
   */
  failed(error: unknown, next?: { readonly waitMs?: number; readonly meanwhile?: string }): void
  /**
   * Reports an answer. Costs nothing if no failure was reported before.
   *
   * @param waitedMessages how many messages are waiting for it now
   */
  recovered(waitedMessages?: number): void
  /** This component no longer uses the dependency: its last report no longer counts. */
  close(): void
}

export interface OutageOptions {
  readonly logger: Pick<Logger, 'info' | 'warn'>
  /** Value of the log field `dependency`: `store`. */
  readonly dependency: string
  /** The name in log messages: `PostgreSQL`. */
  readonly name: string
  /** Shorter outages are not logged. */
  readonly patienceMs?: number
  readonly onChange?: (isAway: boolean) => void
}

const lineIntervalMs = 60_000
/** How many outages in a row are logged; after that, one a minute. */
const burstMax = 3

/** @returns a function that opens a report for one component of the process */
export function openOutage(options: OutageOptions): () => OutageReport {
  const { logger, dependency, name, patienceMs = 0, onChange } = options
  const failing = new Set<OutageReport>()
  let beganMs = 0
  let isLogged = false
  let loggedMs = 0
  let allowance = burstMax
  let allowedMs = performance.now()
  let unlogged = 0
  /** The `meanwhile` texts already logged in this outage. */
  const logged = new Set<string | undefined>()
  const waiting = new Map<OutageReport, number>()

  function mayLog(nowMs: number, meanwhile: string | undefined): boolean {
    if (nowMs - beganMs < patienceMs) return false
    if (isLogged) return nowMs - loggedMs >= lineIntervalMs || !logged.has(meanwhile)
    allowance = Math.min(burstMax, allowance + (nowMs - allowedMs) / lineIntervalMs)
    allowedMs = nowMs
    if (allowance < 1) return false
    allowance--
    return true
  }

  function begin(nowMs: number): void {
    beganMs = nowMs
    isLogged = false
    logged.clear()
    waiting.clear()
    onChange?.(true)
  }

  function logAway(nowMs: number, error: unknown, attempt: number, waitMs: number | undefined, meanwhile: string | undefined): void {
    const lastedMs = nowMs - beganMs
    const since = new Date(Date.now() - lastedMs).toISOString()
    const sentence = [
      `${name} is away${lastedMs < 1000 ? '' : ` since ${since}`} (${factOf(error)}), attempt ${attempt}`,
      waitMs === undefined ? '' : `, next in ${seconds(waitMs)}`,
      unlogged === 0 ? '' : `, ${counted(unlogged, 'more outage')} since the last line`,
      meanwhile === undefined ? '' : `: ${meanwhile}`,
    ].join('')
    logger.warn({ dependency, attempt, ...(waitMs === undefined ? {} : { next_ms: Math.round(waitMs) }), since }, sentence)
    isLogged = true
    logged.add(meanwhile)
    loggedMs = nowMs
    unlogged = 0
  }

  function end(): void {
    onChange?.(false)
    if (!isLogged) unlogged++
  }

  return function report(): OutageReport {
    let attempts = 0
    const own: OutageReport = {
      failed(error, { waitMs, meanwhile } = {}) {
        const nowMs = performance.now()
        if (failing.size === 0) begin(nowMs)
        failing.add(own)
        attempts++
        if (mayLog(nowMs, meanwhile)) logAway(nowMs, error, attempts, waitMs, meanwhile)
      },
      recovered(waitedMessages) {
        if (!failing.delete(own)) return
        attempts = 0
        if (waitedMessages !== undefined) waiting.set(own, waitedMessages)
        if (failing.size > 0) return
        end()
        if (!isLogged) return
        const awayMs = Math.round(performance.now() - beganMs)
        const line = { dependency, away_ms: awayMs }
        const sentence = `${name} is back after ${seconds(awayMs)}`
        if (waiting.size === 0) return logger.info(line, sentence)
        const messages = [...waiting.values()].reduce((sum, count) => sum + count)
        logger.info({ ...line, waited_messages: messages }, `${sentence}: ${counted(messages, 'message')} waited`)
      },
      close() {
        attempts = 0
        if (failing.delete(own) && failing.size === 0) end()
      },
    }
    return own
  }
}

const gaugeName = 'dependency_outage'

export interface Outages<Dependency extends string> {
  /** A report for one component of the process. */
  report(dependency: Dependency): OutageReport
}

/**
 * The outages of a component, with the gauge `dependency_outage`: 0 from the start, and 1 while a dependency is away.
 *
 * @param component the gauge's `component_id`: `ingest`
 * @param names what the log calls each dependency: `{ store: 'PostgreSQL' }`
 */
export function openOutages<Dependency extends string>(
  logger: OutageOptions['logger'],
  registry: Registry,
  component: string,
  names: Readonly<Record<Dependency, string>>,
): Outages<Dependency> {
  const gauge = new Gauge({
    name: gaugeName,
    help: '1 while a dependency of the component is away, else 0.',
    labelNames: ['component_id', 'dependency'],
    aggregator: 'max',
    registers: [registry],
  })
  const opened = new Map(
    Object.entries<string>(names).map(([dependency, name]) => {
      const away = gauge.labels({ component_id: component, dependency })
      away.set(0)
      return [dependency, openOutage({ logger, dependency, name, onChange: isAway => away.set(isAway ? 1 : 0) })]
    }),
  )
  return { report: dependency => opened.get(dependency)!() }
}

/** The dependencies of the process's components, and whether each is away. */
export async function dependenciesIn(registry: Registry): Promise<{ readonly name: string; readonly is_away: boolean }[]> {
  const { values = [] } = (await registry.getSingleMetric(gaugeName)?.get()) ?? {}
  return values.map(({ labels, value }) => ({ name: String(labels['dependency']), is_away: value === 1 }))
}

/** How often an otherwise idle dependency is checked, and how long the check may take. */
const checkIntervalMs = 5_000

/** Checks a dependency every few seconds until `signal` aborts, so that an outage is noticed even without requests. Never rejects. */
export async function watchDependency(
  check: () => Promise<void>,
  report: OutageReport,
  signal: AbortSignal,
  intervalMs = checkIntervalMs,
): Promise<void> {
  let asked: Promise<void> | undefined
  while (!signal.aborted) {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error(`no answer within ${seconds(intervalMs)}`)), intervalMs)
    try {
      // While a check hangs, no second one is started.
      asked ??= check().finally(() => (asked = undefined))
      await unlessAborted(asked, AbortSignal.any([signal, late.signal]))
      report.recovered()
    } catch (error) {
      if (!signal.aborted) report.failed(error, { waitMs: intervalMs })
    } finally {
      clearTimeout(timer)
    }
    await pause(intervalMs, signal)
  }
}

/** Length of the error text in a log line. */
const factLengthMax = 300

/**
 * An error as part of a sentence: `ECONNREFUSED 127.0.0.1:5432` if a connection failed, else its message, those of its causes unless
 * repeated, and the SQLSTATE. Without a stack, and without the user and password of a URL.
 */
export function factOf(error: unknown): string {
  const texts: string[] = []
  let socketError: string | undefined
  let one = error
  for (let depth = 0; one instanceof Error && depth < 8; depth++) {
    const { message, sqlState = '', syscall } = one as Error & { sqlState?: string; syscall?: string }
    if (syscall === 'connect') socketError = message.replace(/^connect /, '')
    if (message !== '' && !texts.some(known => known.includes(message))) texts.push(`${sqlState} ${message}`.trim())
    one = one.cause ?? (one instanceof AggregateError ? one.errors[0] : undefined)
  }
  const text = socketError ?? (texts.length === 0 ? String(error) : texts.join(': '))
  return text
    .replace(/\s+/g, ' ')
    .replace(/:\/\/\S*@/g, '://***@')
    .slice(0, factLengthMax)
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
