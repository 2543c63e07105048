// Gauges of when certificates expire, for an alert before devices lose access, and of revocations under way; without names of things.

import { Gauge, type Registry } from 'prom-client'
import type { Certificates, Expiries } from './store.ts'

/** At most one query in this time, and a scrape waits no longer than this: it has other metrics to deliver. */
const freshMs = 30_000
const waitMsMax = 1_000

/** Every instance reports all certificates. While the database does not answer the values are NaN; the outage itself has another gauge. */
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
    help: 'When the first thing no longer has a valid certificate, in seconds since 1970; NaN if none has one.',
    aggregator: 'min',
    registers: [],
    async collect() {
      this.set(((await ask())?.earliestMs ?? Number.NaN) / 1000)
    },
  })
  const expiring = new Gauge({
    name: 'certificates_expiring',
    help: 'Things whose last valid certificate ends within this many days.',
    labelNames: ['days'],
    aggregator: 'max',
    registers: [],
    async collect() {
      const expiries = await ask()
      this.set({ days: '7' }, expiries?.within7 ?? Number.NaN)
      this.set({ days: '30' }, expiries?.within30 ?? Number.NaN)
    },
  })
  const pending = new Gauge({
    name: 'certificates_revocations_pending',
    help: 'Revoked certificates that step-ca or Vault has not revoked yet.',
    aggregator: 'max',
    registers: [],
    async collect() {
      this.set((await ask())?.pending ?? Number.NaN)
    },
  })
  for (const gauge of [earliest, expiring, pending]) registry.registerMetric(gauge)
}
