// How soon certificates end, as gauges without a name of any: for an alert before devices are locked out.

import { Gauge, type Registry } from 'prom-client'
import type { Certificates, Expiries } from './store.ts'

/** A scrape asks no more often, and waits no longer: it has more to tell than this. */
const freshMs = 30_000
const waitMsMax = 1_000

/** Every instance tells the same of all certificates. While the database does not answer the values are NaN: the outage has a gauge of its own. */
export function watchExpiries(registry: Registry, certificates: Pick<Certificates, 'expiries'>): void {
  let asked: { readonly atMs: number; readonly answer: Promise<Expiries | undefined> } | undefined
  const ask = (): Promise<Expiries | undefined> => {
    const now = performance.now()
    if (asked === undefined || now - asked.atMs > freshMs) {
      const answer = certificates.expiries(AbortSignal.timeout(waitMsMax)).catch(() => undefined)
      asked = { atMs: now, answer }
    }
    return asked.answer
  }
  const earliest = new Gauge({
    name: 'certificates_earliest_expiry_timestamp_seconds',
    help: 'When the first of the valid certificates ends, in seconds since 1970; NaN without any.',
    aggregator: 'min',
    registers: [],
    async collect() {
      this.set(((await ask())?.earliestMs ?? Number.NaN) / 1000)
    },
  })
  const expiring = new Gauge({
    name: 'certificates_expiring',
    help: 'Valid certificates that end within so many days.',
    labelNames: ['days'],
    aggregator: 'max',
    registers: [],
    async collect() {
      const expiries = await ask()
      this.set({ days: '7' }, expiries?.within7 ?? Number.NaN)
      this.set({ days: '30' }, expiries?.within30 ?? Number.NaN)
    },
  })
  for (const gauge of [earliest, expiring]) registry.registerMetric(gauge)
}
