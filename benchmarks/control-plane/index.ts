// The control plane with a million things: how long its queries take compared with 10,000 things, and how many requests a process serves.
//
// Fills two databases of one PostgreSQL server, asks each question in both in turns, and loads one process with GET /things/<id>.
// With a million things that takes about five minutes and 4 GB of disk.
//
//   --things <n>       things of the large database, a multiple of 10,000; a tenth belongs to one owner (default 1000000)
//   --rounds <n>       how often each question is asked (default 300)
//   --turns <n>        turns of load on each route (default 5)
//   --seconds <n>      of each turn (default 5)
//   --connections <n>  that ask at once (default 16)
//
// Examples:
//   npm run bench -- control-plane
//   npm run bench -- control-plane --things 100000 --rounds 100
//   npm run bench -- control-plane --turns 1 --seconds 1       a quick look at the whole

import { parseArgs } from 'node:util'
import { populationOf } from '../../test/control-plane/population.ts'
import { startPostgres } from '../../test/servers/postgres.ts'
import { type Asked, measureRequests } from './requests.ts'
import { openSite } from './site.ts'
import { measureThroughput, type Throughput } from './throughput.ts'

const { values } = parseArgs({
  options: {
    things: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '300' },
    turns: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    connections: { type: 'string', default: '16' },
  },
})
const smallThings = 10_000
const things = Number(values.things)
if (!(things > 0 && things % smallThings === 0)) {
  console.error(`--things is ${values.things}: give a multiple of ${smallThings}`)
  process.exit(2)
}
/** Allowed ratio of the time of a query in the large site to that in the small one. */
const ratioMax = 1.5
const perSecondMin = 3_000
const bareRatioMin = 0.5

const startedMs = performance.now()
function progress(what: string): void {
  process.stderr.write(`${((performance.now() - startedMs) / 1000).toFixed(0).padStart(4)} s  ${what}\n`)
}
const counted = (count: number): string => count.toLocaleString('en-US')
const verdict = (isMet: boolean): string => (isMet ? '' : '  missed')

function printRequests(asked: readonly Asked[]): void {
  console.log(
    `\nMilliseconds, medians of ${values.rounds} rounds${' '.repeat(20)}${counted(smallThings).padStart(10)} ${counted(things).padStart(10)}   ratio  targets`,
  )
  for (const { name, msMax, isAlike, small, large } of asked) {
    const ratio = large / small
    const targets = isAlike ? `${msMax} ms, ${ratioMax}` : `${msMax} ms`
    const isMet = large <= msMax && (!isAlike || ratio <= ratioMax)
    console.log(
      `  ${name.padEnd(52)} ${small.toFixed(2).padStart(8)} ${large.toFixed(2).padStart(10)}   ${ratio.toFixed(2).padStart(5)}  ${targets}${verdict(isMet)}`,
    )
  }
}

function printThroughput([ours, own, ...bare]: readonly Throughput[]): void {
  console.log(`\n${values.connections} connections, medians of ${values.turns} turns of ${values.seconds} s`)
  const line = ({ name, perSecond, cpuUs }: Throughput, rest: string): void =>
    console.log(`  ${name.padEnd(60)} ${counted(Math.round(perSecond)).padStart(7)}/s ${cpuUs.toFixed(0).padStart(4)} us CPU   ${rest}`)
  for (const one of [ours!, own!]) line(one, `target ${counted(perSecondMin)}/s${verdict(one.perSecond >= perSecondMin)}`)
  for (const [at, route] of bare.entries()) {
    const target = at === 0 ? `, target ${bareRatioMin}${verdict(route.ratio >= bareRatioMin)}` : ''
    line(route, `the first comes to ${route.ratio.toFixed(2)} of it${target}`)
  }
}

async function measure(): Promise<void> {
  progress('starting PostgreSQL')
  const settings = { shared_buffers: '2GB', max_wal_size: '8GB', maintenance_work_mem: '512MB', work_mem: '64MB' }
  const postgres = await startPostgres({ settings })
  try {
    const open = async (count: number) =>
      openSite(await postgres.createDatabase(), populationOf(count), what => progress(`${counted(count)} things: ${what}`))
    const [small, large] = [await open(smallThings), await open(things)]
    const { owners, channels } = large.population
    const [{ policies } = { policies: 0n }] = await large.database.query<{ policies: bigint }>(
      'SELECT count(*) AS policies FROM control_plane.tuples',
    )
    console.log(
      `${counted(things)} things of ${counted(owners)} owners, ${counted(channels)} channels, ${counted(Number(policies))} policies`,
    )
    printRequests(await measureRequests(small, large, Number(values.rounds), progress))
    const load = { turns: Number(values.turns), seconds: Number(values.seconds), connections: Number(values.connections) }
    printThroughput(await measureThroughput(large, load, progress))
    await Promise.all([small.close(), large.close()])
  } finally {
    await postgres.stop()
  }
}

await measure()
