// The Helm chart, rendered by Helm: kubeconform finds it valid, and its roles work with the commands, variables and files of their pods.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Admin } from '@platformatic/kafka'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readCommitted } from '../../pipeline/kafka/topics.ts'
import { allVariables, roles } from '../../roles/roles.ts'
import { extractBlocks } from '../readme/blocks.ts'
import { administrator, masterKey, type Spawned, token } from '../roles/processes.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { describeWithKafka } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { root } from '../tidy/files.ts'
import { call, makeSite, publish, readUntil } from '../up/operator.ts'
import { conform, helm, type KubernetesObject, kubeconform, type Rendered, render } from './chart.ts'
import { matches, type Pod, podsOf, type Secrets, templateOf } from './pods.ts'

const minimum = { kafka: { brokers: ['kafka-0.kafka:9092'] } }

const everything = {
  kafka: {
    brokers: ['kafka-0.kafka:9093', 'kafka-1.kafka:9093'],
    env: {
      SVC_LOG_TLS: 'true',
      SVC_LOG_CA_FILE: '/mnt/kafka/ca.crt',
      SVC_LOG_SASL_MECHANISM: 'scram-sha-512',
      SVC_LOG_SASL_USERNAME: 'sluice',
    },
    secrets: { SVC_LOG_SASL_PASSWORD: { existingSecret: 'kafka', key: 'password' } },
    volumes: { kafka: { secret: { secretName: 'kafka-ca' } } },
  },
  api: { host: 'api.example.com', config: '[tokens]\nlifetime_seconds = 3_600\n', strategy: 'RollingUpdate' },
  ingest: {
    host: 'devices.example.com',
    replicas: 3,
    mqtt: { enabled: true, port: 8883, serviceType: 'LoadBalancer', annotations: { note: 'one' } },
  },
  bridge: {
    enabled: true,
    env: { SVC_BROKER_URL: 'mqtts://broker:8883', SVC_BROKER_TOPICS: 'factory/#', SVC_BROKER_USERNAME: 'sluice' },
    secrets: { SVC_BROKER_PASSWORD: { existingSecret: 'kafka', key: 'password' } },
  },
  writers: { config: '[transformer]\nformat = "json"\n' },
  readers: { env: { SVC_LIVE_ENABLED: 'true' } },
  stores: {
    relational: { reader: { host: 'messages.example.com', secrets: { SVC_RELATIONAL_URL: { existingSecret: 'readers', key: 'url' } } } },
    widecolumn: { enabled: true, writer: { env: { SVC_LOG_GROUP: 'archive', SVC_LOG_TOPICS: 'messages,older' } } },
    timeseries: { enabled: true, env: { SVC_TIMESERIES_URL: 'http://influx:8086/?org=plant&bucket=messages' } },
    document: { enabled: true },
  },
  keda: { enabled: true, lagThreshold: 1_000_000, authenticationRef: 'kafka' },
  networkPolicy: {
    enabled: true,
    clients: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress' } } }],
    monitoring: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
    egress: [{ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }] }],
  },
  ingress: { enabled: true, className: 'nginx', tlsSecret: 'sluice-tls', trustedProxies: ['10.0.0.0/8'], annotations: { note: 'one' } },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
  pod: {
    annotations: { note: 'one' },
    labels: { team: 'devices' },
    nodeSelector: { 'kubernetes.io/arch': 'amd64' },
    tolerations: [{ key: 'devices', operator: 'Exists' }],
    affinity: { nodeAffinity: {} },
    priorityClassName: 'high',
  },
}

const ownSecrets = {
  ...minimum,
  image: { repository: 'registry.example.com/devices/sluice', tag: '0.1.0@sha256:0f0f', pullPolicy: 'Always' },
  imagePullSecrets: [{ name: 'registry' }],
  controlToken: { existingSecret: 'vault-tokens', key: 'control' },
  api: {
    secrets: {
      SVC_MASTER_KEY: { existingSecret: 'vault-keys', key: 'master' },
      SVC_DATABASE_URL: { existingSecret: 'database-app', key: 'uri' },
      SVC_ADMIN_PASSWORD: { existingSecret: 'vault-keys', key: 'admin' },
    },
  },
  readers: { tag: '0.0.9' },
  stores: { relational: { secrets: { SVC_RELATIONAL_URL: { existingSecret: 'messages-app', key: 'uri' } } } },
  serviceAccount: { create: false },
  podDisruptionBudget: { enabled: false },
  networkPolicy: { enabled: true },
}

const guide = (): Promise<string> => readFile(join(root, 'docs/guides/kubernetes.md'), 'utf8')

const url = 'postgres://messages@db/messages'
const secrets: Secrets = {
  sluice: {
    'master-key': masterKey,
    'control-token': token,
    'admin-password': administrator.password,
    'database-url': 'postgres://sluice@db/sluice',
    'relational-url': url,
    'widecolumn-url': 'cassandra://node-1,node-2/sluice?dc=datacenter1',
    'timeseries-token': 'kT7xQ2',
    'document-url': 'mongodb://mongo/sluice',
  },
  kafka: { password: 'open sesame' },
  readers: { url: 'postgres://reader@db/messages' },
  'vault-tokens': { control: token },
  'vault-keys': { master: masterKey, admin: administrator.password },
  'database-app': { uri: 'postgres://sluice@db/sluice' },
  'messages-app': { uri: url },
}

/** On a busy machine; a quiet one needs two minutes, once. */
const buildMsMax = 1_800_000

const tools = helm.missing() ?? kubeconform.missing()

describeUnlessMissing('the Helm chart', tools, () => {
  beforeAll(async () => {
    await helm.install()
    await kubeconform.install()
  }, buildMsMax)

  describe.each([
    ['a minimum', async () => minimum, 4],
    ['everything', async () => everything, 11],
    ['secrets and an image of your own', async () => ownSecrets, 4],
    ['the values of the guide', async () => extractBlocks(await guide(), 'values')[0]!.text, 4],
  ])('with %s', (_name, values, roleCount) => {
    test('renders to valid objects that belong together, and to options that each role accepts', async () => {
      const rendered = await render(await values())
      await conform(rendered)
      expect(rendered.of('Deployment')).toHaveLength(roleCount)
      for (const kind of ['Service', 'PodDisruptionBudget', 'NetworkPolicy']) {
        for (const one of rendered.of(kind)) expect(chosenBy(one, rendered), `${kind} ${one.metadata.name}`).toHaveLength(1)
      }
      const known = await allVariables()
      for (const { args, environment } of podsOf(rendered, secrets).all) {
        const [words, [file]] = [args.filter(word => /^\w+$/.test(word)), args.filter(word => word.endsWith('.toml'))]
        const { load, fileVariable } = await roles[words.join(' ')]!()
        load({ environment, otherVariables: known, ...(file && { file }), ...(fileVariable && { fileVariable }) })
      }
    })
  })

  test('devices reach the port of MQTT, if it is enabled, at a Service of its own', async () => {
    const rendered = await render(everything)
    const service = rendered.of('Service').find(({ metadata }) => metadata.name === 'sluice-mqtt')
    expect(service).toMatchObject({
      metadata: { annotations: { note: 'one' } },
      spec: { type: 'LoadBalancer', ports: [{ name: 'mqtt', port: 8883, targetPort: 'mqtt' }] },
    })
    const ingest = podsOf(rendered, secrets).all.find(({ component }) => component === 'ingest')!
    expect(ingest.environment).toMatchObject({ SVC_MQTT_ENABLED: 'true', SVC_MQTT_PORT: '1883' })
    const [policy] = rendered.of('NetworkPolicy').filter(({ metadata }) => metadata.name === 'sluice-ingest')
    const [clients] = policy!.spec['ingress'] as object[]
    expect(clients).toMatchObject({ ports: [{ port: 'http' }, { port: 'mqtt' }] })
    const without = (await render(minimum)).of('Service').map(({ metadata }) => metadata.name)
    expect(without).not.toContain('sluice-mqtt')
  })

  test('every pod is restricted as Kubernetes recommends, and has no token', async () => {
    for (const deployment of (await render(everything)).of('Deployment')) {
      expect(templateOf(deployment).spec).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
        containers: [
          { securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } } },
        ],
      })
    }
  })

  test('a role gets the secrets that it needs, and no other', async () => {
    const variablesOf = async (values: object) =>
      Object.fromEntries(
        podsOf(await render(values), secrets).all.map(({ component, environment }) => [
          component,
          Object.keys(environment)
            .filter(name => name.endsWith('_FILE'))
            .sort(),
        ]),
      )
    expect(await variablesOf(minimum)).toEqual({
      api: ['SVC_CONTROL_TOKEN_FILE', 'SVC_DATABASE_URL_FILE', 'SVC_MASTER_KEY_FILE'],
      ingest: ['SVC_CONTROL_TOKEN_FILE'],
      'writer-relational': ['SVC_RELATIONAL_URL_FILE'],
      'reader-relational': ['SVC_CONTROL_TOKEN_FILE', 'SVC_RELATIONAL_URL_FILE'],
    })
    const { 'reader-document': reader } = await variablesOf(everything)
    expect(reader).toEqual(['SVC_CONTROL_TOKEN_FILE', 'SVC_DOCUMENT_URL_FILE', 'SVC_LOG_CA_FILE', 'SVC_LOG_SASL_PASSWORD_FILE'])
  })

  test('a change of a file restarts its role, and writers never run in two releases', async () => {
    const checksums = async (values: object) =>
      Object.fromEntries(
        (await render(values)).of('Deployment').map(one => [one.metadata.name, templateOf(one).metadata.annotations['checksum/config']]),
      )
    const [before, after] = [
      await checksums(minimum),
      await checksums({ ...minimum, ingest: { config: '[ingest]\npayload_bytes_max = 1_000\n' } }),
    ]
    expect(Object.keys(after).filter(name => after[name] !== before[name])).toEqual(['sluice-ingest'])
    const strategies = (await render(everything))
      .of('Deployment')
      .map(({ metadata, spec }) => [metadata.name, (spec['strategy'] as { type: string }).type])
    expect(Object.fromEntries(strategies)).toMatchObject({
      'sluice-api': 'RollingUpdate',
      'sluice-ingest': 'RollingUpdate',
      'sluice-bridge': 'Recreate',
      'sluice-writer-relational': 'Recreate',
      'sluice-reader-relational': 'RollingUpdate',
    })
    expect((await render(minimum)).of('Deployment')[0]).toMatchObject({
      metadata: { name: 'sluice-api' },
      spec: { strategy: { type: 'Recreate' } },
    })
  })

  test('a pod may stop for as long as its role, and its tools read the file of the writer', async () => {
    const rendered = await render({ ...minimum, ingest: { env: { SVC_PROCESS_STOP_SECONDS: '120' } }, writers: { config: '[writer]\n' } })
    const pods = Object.fromEntries(rendered.of('Deployment').map(one => [one.metadata.name, templateOf(one).spec]))
    expect(pods['sluice-ingest']).toMatchObject({ terminationGracePeriodSeconds: 145 })
    expect(pods['sluice-api']).toMatchObject({ terminationGracePeriodSeconds: 30 })
    const path = { name: 'SVC_RELATIONAL_WRITER_CONFIG_PATH', value: '/etc/sluice/config.toml' }
    expect(pods['sluice-writer-relational']!.containers[0].env).toContainEqual(path)
  })

  test('KEDA decides on the writers, by the group and topics of each', async () => {
    const rendered = await render(everything)
    const scaled = rendered.of('ScaledObject').map(({ spec }) => spec as unknown as ScaledObject)
    expect(scaled.map(({ triggers: [{ metadata }] }) => [metadata['consumerGroup'], metadata['topic'], metadata['lagThreshold']])).toEqual([
      ['document.messages', 'messages', '1000000'],
      ['relational.messages', 'messages', '1000000'],
      ['timeseries.messages', 'messages', '1000000'],
      ['archive', undefined, '1000000'],
    ])
    const targets = scaled.map(({ scaleTargetRef }) => scaleTargetRef.name)
    const without = rendered.of('Deployment').filter(({ spec }) => spec['replicas'] === undefined)
    expect(without.map(({ metadata }) => metadata.name)).toEqual(targets)
    const unnamed = { ...minimum, keda: { enabled: true }, writers: { env: { SVC_LOG_TOPICS: 'messages,older' } } }
    await expect(render(unnamed)).rejects.toThrow('set SVC_LOG_GROUP beside it')
  })

  test('the Ingress has a host for each public role, and none twice', async () => {
    const [ingress] = (await render(everything)).of('Ingress')
    const { rules } = ingress!.spec as unknown as {
      rules: { host: string; http: { paths: [{ backend: { service: { name: string } } }] } }[]
    }
    expect(Object.fromEntries(rules.map(({ host, http }) => [host, http.paths[0].backend.service.name]))).toEqual({
      'api.example.com': 'sluice-api',
      'devices.example.com': 'sluice-ingest',
      'messages.example.com': 'sluice-reader-relational',
    })
    await expect(render({ ...minimum, ingress: { enabled: true } })).rejects.toThrow('needs the host of a role')
    const same = { host: 'sluice.example.com' }
    await expect(render({ ...minimum, ingress: { enabled: true }, api: same, ingest: same })).rejects.toThrow('give each its own')
  })

  test('own secrets and images are used everywhere', async () => {
    const rendered = await render(ownSecrets)
    const images = rendered.of('Deployment').map(one => templateOf(one).spec.containers[0].image.split(':').slice(1).join(':'))
    expect(images.sort()).toEqual(['0.0.9', ...Array<string>(3).fill('0.1.0@sha256:0f0f')])
    expect(rendered.text).not.toMatch(/name: sluice\n\s+items/)
    expect(rendered.of('ServiceAccount')).toEqual([])
  })

  describeWithKafka('with Kafka', kafka =>
    describeWithPostgres('and PostgreSQL', postgres => {
      test('the roles start together, work, are found healthy, and stop at SIGTERM', async () => {
        const topic = `chart-${process.pid}-${Date.now()}`
        const values = {
          kafka: { brokers: kafka.brokers, topic },
          keda: { enabled: true },
          env: { SVC_ENV: 'development' },
          api: { env: { SVC_USERS_ALLOW_SELF_REGISTER: 'true' } },
        }
        const own = { 'database-url': await postgres.createDatabase(), 'relational-url': await postgres.createDatabase() }
        const rendered = await render(values)
        const pods = podsOf(rendered, { sluice: { ...secrets['sluice']!, ...own } })
        const running = pods.all.map(pod => ({ pod, spawned: pod.run() }))
        for (const { pod, spawned } of running) {
          await untilReady(pod, spawned)
          for (const probe of ['startupProbe', 'livenessProbe'] as const) expect((await fetch(pod.urlOf(probe))).status).toBe(200)
        }

        const site = await makeSite(pods.urlOf('sluice-api', 'http'))
        expect((await publish(pods.urlOf('sluice-ingest', 'http'), site, [{ n: 'count', v: 7 }])).status).toBe(202)
        expect(await readUntil(pods.urlOf('sluice-reader-relational', 'http'), site, 1)).toMatchObject([{ Name: 'count', Value: 7 }])
        for (const { metadata } of rendered.of('Service')) {
          expect((await call(pods.urlOf(metadata.name, 'internal'), 'GET', '/metrics')).text).toContain('process_cpu_seconds_total')
        }

        const writer = pods.all.find(({ component }) => component === 'writer-relational')!
        const verified = writer.run(['verify', 'relational'])
        expect(await verified.ended, verified.printed()).toBe(0)

        // What KEDA computes the lag from.
        const [scaled] = rendered.of('ScaledObject')
        const { consumerGroup, topic: scaledBy } = (scaled!.spec as unknown as ScaledObject).triggers[0].metadata
        const admin = new Admin({ clientId: 'tests', bootstrapBrokers: [...kafka.brokers], retries: 20, retryDelay: 100 })
        onTestFinished(() => admin.close())
        const partitions = Array.from({ length: 12 }, (_, partition) => partition)
        while (![...(await readCommitted(admin, consumerGroup!, scaledBy!, partitions)).values()].includes(1)) await wait(50)

        for (const { pod, spawned } of running) {
          spawned.child.kill('SIGTERM')
          expect(await spawned.ended, `${pod.component}:\n${spawned.printed()}`).toBe(0)
        }
      })
    }),
  )
})

interface ScaledObject {
  readonly scaleTargetRef: { readonly name: string }
  readonly triggers: readonly [{ readonly metadata: Readonly<Record<string, string>> }]
}

/** The Deployments whose pods an object selects. */
function chosenBy({ spec }: KubernetesObject, rendered: Rendered): readonly KubernetesObject[] {
  const selector = (spec['selector'] ?? spec['podSelector']) as { matchLabels?: Record<string, string> } & Record<string, string>
  return rendered.of('Deployment').filter(one => matches(selector.matchLabels ?? selector, templateOf(one).metadata.labels))
}

/** Resolves when the readiness probe succeeds. @throws Error with what the role printed if it ends instead */
async function untilReady(pod: Pod, { child, printed }: Spawned): Promise<void> {
  while (child.exitCode === null && child.signalCode === null) {
    const answer = await fetch(pod.urlOf('readinessProbe')).catch(() => undefined)
    if (answer?.ok === true) return
    await wait(50)
  }
  throw new Error(`${pod.component} ended:\n${printed()}`)
}
