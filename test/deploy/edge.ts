// nginx and HAProxy with the files of deploy/proxies, on free ports, and with forwarders behind them that show which role gets a request.

import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fixture } from '../pipeline/ingest/device.ts'
import { missingHaproxy, missingNginx, njsModule } from '../servers/install/proxies.ts'
import { freePort } from '../servers/process/free-port.ts'
import { keep } from '../servers/process/keeper.ts'
import { openProxy, type Proxy } from '../servers/process/proxy.ts'
import { root } from '../tidy/files.ts'

/** The addresses in the files. */
const roles = { api: '127.0.0.1:8080', ingest: '127.0.0.1:8081', reader: '127.0.0.1:9084' } as const
export type RoleName = keyof typeof roles

export interface Edge {
  readonly port: number
  /** The role to which the proxy sends what `work` requests. */
  roleOf(work: () => Promise<unknown>): Promise<RoleName | undefined>
  stop(): Promise<void>
}

interface Kind {
  readonly missing: () => string | undefined
  /** Writes what it needs beside the file from deploy/proxies, and returns its command. */
  readonly prepare: (folder: string, sample: string) => readonly string[]
  readonly sample: string
  readonly isReady: (line: string) => boolean
}

const nginxOf = (folder: string): string => `
  daemon off;
  user root;
  worker_processes 1;
  pid ${folder}/nginx.pid;
  error_log stderr notice;
  load_module ${njsModule};
  events {}
  http {
    access_log off;
    ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(of => `${of}_temp_path ${folder}/${of};`).join(' ')}
    include ${folder}/conf.d/*.conf;
  }`

export const kinds: Readonly<Record<'nginx' | 'HAProxy', Kind>> = {
  nginx: {
    missing: missingNginx,
    sample: 'nginx.conf',
    prepare(folder, sample) {
      mkdirSync(join(folder, 'conf.d'))
      writeFileSync(join(folder, 'conf.d/sluice.conf'), sample)
      writeFileSync(join(folder, 'client-cert.js'), readFileSync(join(root, 'deploy/proxies/client-cert.js')))
      writeFileSync(join(folder, 'nginx.conf'), nginxOf(folder))
      return ['/usr/sbin/nginx', '-e', 'stderr', '-c', join(folder, 'nginx.conf')]
    },
    isReady: line => line.includes('start worker process '),
  },
  HAProxy: {
    missing: missingHaproxy,
    sample: 'haproxy.cfg',
    prepare(folder, sample) {
      writeFileSync(join(folder, 'haproxy.cfg'), sample)
      return ['/usr/sbin/haproxy', '-W', '-f', join(folder, 'haproxy.cfg')]
    },
    isReady: line => line.includes('Loading success'),
  },
}

/**
 * @param target of all roles: a port of 127.0.0.1
 * @param authority PEM of what signs the certificates of devices
 */
export async function startEdge(kind: Kind, target: number, authority: string): Promise<Edge> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-edge-'))
  const port = await freePort()
  const forwarders = new Map<RoleName, Proxy>()
  let sample = readFileSync(join(root, 'deploy/proxies', kind.sample), 'utf8')
  const replace = (from: RegExp | string, to: string): void => {
    const replaced = sample.replaceAll(from, to)
    if (replaced === sample) throw new Error(`${kind.sample} has no ${String(from)}`)
    sample = replaced
  }
  for (const [role, address] of Object.entries(roles)) {
    const forwarder = await openProxy({ port: target })
    forwarders.set(role as RoleName, forwarder)
    replace(address, `127.0.0.1:${forwarder.port}`)
  }
  replace(/(?<=\b(?:listen |bind :))443\b/g, String(port))
  replace('/etc/sluice', folder)
  writeFileSync(join(folder, 'devices-ca.pem'), authority)
  // HAProxy reads the key from the same file.
  writeFileSync(join(folder, 'server.pem'), fixture('server') + fixture('server-key'))
  writeFileSync(join(folder, 'server-key.pem'), fixture('server-key'))
  const command = kind.prepare(folder, sample)
  const server = await keep(command, { folder, isReady: kind.isReady, lastSignal: 'TERM' })
  return {
    port,
    async roleOf(work) {
      const before = [...forwarders].map(([role, { passedBytes }]) => ({ role, passedBytes }))
      await work()
      return before.find(({ role, passedBytes }) => forwarders.get(role)!.passedBytes > passedBytes)?.role
    },
    async stop() {
      await server.end('TERM')
      for (const forwarder of forwarders.values()) await forwarder.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
