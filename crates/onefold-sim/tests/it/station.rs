//! One station with a queue: the model that the other tests run.
//! Room: onefold-sim.

use onefold_sim::{
    Discipline, Event, EventLog, EventQueue, Grant, Limits, Model, RandomStream, RandomStreams,
    Resource, ResourceState, RunEnd, SimError, SimSpan, SimTime, Usage, run,
};

/// How long a customer is served.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    Constant(SimSpan),
    Exponential(SimSpan),
}

#[derive(Clone, Copy, Debug)]
pub enum Happening {
    Arrives(u32),
    Leaves(u32),
}

impl Event for Happening {
    fn words(&self) -> [u64; 2] {
        match *self {
            Self::Arrives(customer) => [1, u64::from(customer)],
            Self::Leaves(customer) => [2, u64::from(customer)],
        }
    }
}

pub struct Station {
    pub customers: u32,
    pub between: SimSpan,
    pub service: Service,
    /// The customer whose departure gets lost, to make the station stall.
    pub lost: Option<u32>,
    pub server: Resource<u32>,
    pub served: u32,
    arrivals: RandomStream,
    services: RandomStream,
}

impl Station {
    pub fn new(seed: u64, customers: u32, between: SimSpan, service: Service) -> Self {
        let streams = RandomStreams::new(seed);
        Self {
            customers,
            between,
            service,
            lost: None,
            server: Resource::new("counter", 1, Discipline::Fifo),
            served: 0,
            arrivals: streams.stream("arrivals"),
            services: streams.stream("services"),
        }
    }

    pub fn run(&mut self, limits: Limits) -> Result<(RunEnd, EventLog, Usage), SimError> {
        let mut queue = EventQueue::new();
        queue.at(SimTime::ZERO, Happening::Arrives(0));
        let mut log = EventLog::default();
        let end = run(self, &mut queue, &mut log, limits)?;
        Ok((end, log, self.server.usage(end.time)))
    }

    pub fn next_random(&mut self) -> (u64, u64) {
        (self.arrivals.next_u64(), self.services.next_u64())
    }

    fn serve(&mut self, customer: u32, queue: &mut EventQueue<Happening>) {
        let span = match self.service {
            Service::Constant(span) => span,
            Service::Exponential(mean) => self.services.exponential(mean),
        };
        if self.lost != Some(customer) {
            queue.after(span, Happening::Leaves(customer));
        }
    }
}

impl Model for Station {
    type Event = Happening;

    fn handle(&mut self, event: Happening, queue: &mut EventQueue<Happening>) {
        match event {
            Happening::Arrives(customer) => {
                if customer + 1 < self.customers {
                    let span = self.arrivals.exponential(self.between);
                    queue.after(span, Happening::Arrives(customer + 1));
                }
                if let Grant::Now(customer) = self.server.request(queue.now(), customer) {
                    self.serve(customer, queue);
                }
            }
            Happening::Leaves(_) => {
                self.served += 1;
                if let Some(next) = self.server.release(queue.now()) {
                    self.serve(next, queue);
                }
            }
        }
    }

    fn work_left(&self) -> u64 {
        u64::from(self.customers - self.served)
    }

    fn resources(&self) -> Vec<ResourceState> {
        vec![self.server.state()]
    }
}
